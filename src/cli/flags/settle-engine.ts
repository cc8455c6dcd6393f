/** `--engine auto` and `--precision auto`: the fastest way on the first images that is near enough to float32. */
import { invalidOption, type Options } from '../../base/checks.js';
import type { EngineChoice } from '../../datasets/records/engine-choice.js';
import type { SourceOptions } from '../../feeds/items/source-options.js';
import type { EmbedSource } from '../../datasets/sources/open-source.js';
import type { ClipCutOptions } from '../../images/transform/clip-options.js';
import type { Transform } from '../../images/transform/transform.js';
import type { OnnxModel } from '../../model/open/open-model.js';
import { pruneToRun } from '../../model/oracle/prune-model.js';
import { chooseEngine, describeCandidate, MIN_COSINE } from '../../precision/engines/choose-engine.js';
import { bindingFor } from '../../runtime/capabilities/capabilities.js';
import type { Terminal } from '../terminal/terminal.js';
import { readDeviceFlags, readRewriting, type ExtractorFlags, type SettledFlags } from './open-extractor.js';
import { withReturnNodes } from './return-flags.js';

export interface SettleRequest extends Partial<SourceOptions> {
  readonly model: OnnxModel;
  readonly transform: Transform;
  /** Undefined where photos cannot be read twice. */
  readonly photos: EmbedSource | undefined;
  /** What to give in place of `auto` then, for the error. */
  readonly otherwise: string;
  readonly minCosine: number | undefined;
  readonly clips?: Options<ClipCutOptions> | undefined;
  readonly batch?: number;
  /** A dataset to continue. */
  readonly out?: string;
}

/** Replaces `auto` by names, and says in a line which and why. */
export async function settleEngine<Flags extends ExtractorFlags>(
  terminal: Terminal,
  flags: Flags,
  { model, photos, otherwise, minCosine = MIN_COSINE.fallback, ...request }: SettleRequest,
): Promise<{ readonly flags: Flags & SettledFlags; readonly choice: EngineChoice | undefined }> {
  const { engine, precision } = flags;
  if (engine !== 'auto' && precision !== 'auto')
    return { flags: { ...flags, engine, precision }, choice: undefined };
  const flag = engine === 'auto' ? '--engine' : '--precision';
  if (photos === undefined) throw invalidOption(flag, otherwise, 'auto');
  const [device] = readDeviceFlags(flags);
  const rewriting = readRewriting(model, flags, request.transform);
  const choice = await withReturnNodes(flags.return, model, async (nodes) => {
    const pruned = await pruneToRun(model, nodes, rewriting);
    const { signal } = terminal;
    return chooseEngine(pruned, photos, {
      ...request,
      engine,
      precision,
      device: device!,
      minCosine,
      signal,
    });
  });
  const taken = choice.candidates.find(({ reason }) => reason === null);
  const others = choice.candidates.filter(({ reason }) => reason !== null).map(describeOther);
  const why = taken ? ` (${[describeCandidate(taken), ...others].join('; ')})` : `, as ${request.out} has it`;
  terminal.err(`chosen: --engine ${choice.engine} --precision ${choice.precision}${why}\n`);
  const binding = bindingFor(choice.engine, flags.binding);
  return { flags: { ...flags, engine: choice.engine, binding, precision: choice.precision }, choice };
}

function describeOther(other: EngineChoice['candidates'][number]): string {
  const isNear = other.imagesPerSecond === null || other.reason === 'slower';
  return isNear ? describeCandidate(other) : `${describeCandidate(other)}: ${other.reason}`;
}
