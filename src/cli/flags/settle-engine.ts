/** `--engine auto` and `--precision auto`: the fastest way on the first images that is near enough to float32. */
import { invalidOption, type Options } from '../../base/checks.js';
import type { EngineChoice } from '../../datasets/records/engine-choice.js';
import type { SourceOptions } from '../../photos/feeds/items/source-options.js';
import type { EmbedSource } from '../../datasets/sources/open-source.js';
import type { ClipCutOptions } from '../../photos/images/transform/clip-options.js';
import type { Transform } from '../../photos/images/transform/transform.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { pruneToRun } from '../../run/model/oracle/prune-model.js';
import { chooseEngine, MIN_COSINE } from '../../products/precision/judge/choose-engine.js';
import { bindingFor } from '../../run/runtime/capabilities/capabilities.js';
import { deviceName, readDevice } from '../../run/runtime/lanes/device.js';
import { engineTable } from '../terminal/engine-table.js';
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

/** Replaces `auto` by names, and says which and why. */
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
  // Every device that works here, unless the flags name one.
  const isOpen = engine === 'auto' && flags.device === undefined && flags.devices === undefined;
  const [device] = isOpen ? [{ type: 'auto' as const, threads: flags.threads }] : readDeviceFlags(flags);
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
  const { engine: taken, precision: how } = choice;
  const place = isOpen ? { device: deviceName(readDevice('--device', choice.device)) } : {};
  const as = choice.candidates.length === 0 ? `, as ${request.out} has it` : '';
  const on = isOpen && place.device !== 'cpu' ? ` --device ${place.device}` : '';
  terminal.err(
    `${engineTable(choice.candidates, terminal.columns)}chosen: --engine ${taken} --precision ${how}${on}${as}\n`,
  );
  const binding = bindingFor(taken, flags.binding);
  return { flags: { ...flags, engine: taken, binding, precision: how, ...place }, choice };
}
