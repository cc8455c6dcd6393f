/** Both bindings of ONNX Runtime give the same bits, on the corpus of graphs and its cuts. */
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { isTapirError } from '../../../../src/base/errors.js';
import { describeModel } from '../../../../src/run/model/lanes/session-model.js';
import { pruneModel } from '../../../../src/run/model/oracle/prune-model.js';
import { prunedInternals } from '../../../../src/run/model/prune/pruned-model.js';
import type { Session } from '../../../../src/run/runtime/lanes/engine.js';
import type { LaneDescription } from '../../../../src/run/runtime/lanes/protocol.js';
import { SESSION_DEFAULTS } from '../../../../src/run/runtime/lanes/session-options.js';
import { withBinding } from '../../../../src/run/runtime/engines/onnxruntime.js';
import { nameTensor, type NamedTensor, type Tensor } from '../../../../src/onnx/tensor/tensor.js';
import { fixturePath, sharedFixtures } from '../../../support/fixtures.js';
import { inCheck, readCorpus, readValue, type CorpusEntry, type Tap } from '../../../support/graphs.js';
import { isRelease } from '../../../support/rounds.js';

// In the package, lane-start.ts sees to this.
vi.stubEnv('ORT_DISABLE_TELEMETRY', '1');

const source = sharedFixtures === undefined ? fixturePath('graphs') : join(sharedFixtures, 'graphs');
const device = { type: 'cpu', id: 0, threads: 1 } as const;

/** What is compared: numbers as their bytes. */
function bitsOf({ name, dtype, dims, data }: NamedTensor): unknown {
  if (Array.isArray(data)) return { name, dtype, dims, data };
  const { buffer, byteOffset, byteLength } = data;
  return { name, dtype, dims, bytes: Buffer.from(buffer, byteOffset, byteLength).toString('base64') };
}

/** Results of two runs, or the error. The second one writes into memory that is planned. */
async function runTwice(
  binding: 'node' | 'c',
  description: LaneDescription,
  feeds: readonly NamedTensor[],
  fetches: readonly string[],
): Promise<unknown> {
  let session: Session | undefined;
  try {
    session = await withBinding(binding).openSession(description);
    const names = new Set(session.facts.inputs.map(({ name }) => name));
    const needed = feeds.filter(({ name }) => names.has(name));
    const [first, second] = [await session.run(needed, fetches), await session.run(needed, fetches)];
    return [first, second].map((outputs) => outputs.map(bitsOf));
  } catch (error) {
    if (!isTapirError(error)) throw error;
    return { code: error.code, message: error.message };
  } finally {
    await session?.release();
  }
}

async function compare(entry: CorpusEntry, taps: readonly Tap[]): Promise<'equal' | 'refused'> {
  const request = [...new Set(taps.flatMap((tap) => tap.request))];
  const pruning = await pruneModel(join(source, entry.file), request).catch((error: unknown) => error);
  if (isTapirError(pruning)) return 'refused';
  const pruned = pruning as Awaited<ReturnType<typeof pruneModel>>;
  const describeIt = (): Promise<Pick<LaneDescription, 'model' | 'externalFolder'>> =>
    describeModel(pruned.source, prunedInternals.of(pruned).rewrite);
  const feeds = entry.inputs!.map(({ name, file }) => nameTensor(name, readValue(source, file) as Tensor));
  const fetches = [...new Set(pruned.plan.resolved.map(({ tensor }) => tensor))];
  const results: unknown[] = [];
  for (const binding of ['node', 'c'] as const)
    results.push(
      await runTwice(binding, { ...(await describeIt()), device, session: SESSION_DEFAULTS }, feeds, fetches),
    );
  const [node, c] = results as [unknown, { readonly code?: string }];
  if (c.code === 'ENGINE_UNSUPPORTED') return 'refused';
  expect(c).toEqual(node);
  return 'equal';
}

const runnable = readCorpus(source).filter(
  ({ ort, taps, inputs }) => ort?.loads === true && taps !== undefined && inputs !== undefined,
);

/** What to cut an entry to: its largest part, and all others in one. Alone, each cut takes minutes: `TAPIR_ALL_CUTS=1`. */
function groupTaps(taps: readonly Tap[]): (readonly Tap[])[] {
  if (isRelease) return [taps, ...taps.map((tap) => [tap])];
  const [largest, ...others] = taps.toSorted((a, b) => b.nodes - a.nodes);
  return [[largest], others].filter((group): group is Tap[] => group.length > 0 && group[0] !== undefined);
}

describe('the corpus through both bindings', () => {
  const seen: string[] = [];
  it.each(inCheck(runnable).map((entry) => [entry.name, entry] as const))('%s', async (_name, entry) => {
    for (const taps of groupTaps(entry.taps!)) seen.push(await compare(entry, taps));
  });

  it('has compared nearly all', () => {
    const equal = seen.filter((one) => one === 'equal').length;
    expect(equal).toBeGreaterThan(0.9 * seen.length);
  });
});
