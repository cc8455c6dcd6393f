/** A fixed batch made dynamic, and run to see that it is right; else the graph stays as it is, and the plan says why. */
import { isTapirError, reasonOf } from '../../base/errors.js';
import type { Rewrite } from '../../graph/rewrite/rewrite.js';
import { takeRows } from '../../tensor/rows.js';
import type { NamedTensor, Tensor } from '../../tensor/tensor.js';
import { compareTensors } from './compare.js';
import { makeBatchDynamic } from './dynamic-batch.js';
import type { OnnxModel } from '../open-model.js';
import { runBatch } from '../../runtime/run-batch.js';
import { seededFeeds } from './seeded-feeds.js';
import { openExact } from '../session-model.js';
import { describeInputs } from '../value-info.js';

/** Sums over a larger batch are added up in another order. */
const TOLERANCE = 1e-4;
/** Batches of the exported size that are run at once. */
const BATCHES = 3;
const SEED = 1;

/** The rewrite with a dynamic batch, if that can be verified. Its `batch` says what became of it. */
export async function withVerifiedBatch(model: OnnxModel, rewrite: Rewrite): Promise<Rewrite> {
  const exported = exportedBatch(rewrite);
  if (exported === undefined) return { ...rewrite, batch: { mode: 'as-exported' } };
  const fallBack = (reason: string): Rewrite => ({
    ...rewrite,
    batch: { mode: 'per-sample', exported, reason },
  });
  try {
    const result = await makeBatchDynamic(model, rewrite);
    if ('reason' in result) return fallBack(result.reason);
    // Sizes were measured by one run; written into the graph they would hold for no other.
    if (hasOpenSizes(rewrite) && result.changed.length > 0)
      return fallBack('its inputs have other open sizes, which the change would fix');
    const maxRelative = await compareBatches(model, rewrite, result.rewrite, exported);
    if (!(maxRelative <= TOLERANCE)) {
      return fallBack(
        `a batch run at once differs from runs as exported, by ${maxRelative.toPrecision(2)} of the largest value`,
      );
    }
    const { rewrite: dynamic, changed } = result;
    return { ...dynamic, batch: { mode: 'dynamic', exported, changes: changed, maxRelative } };
  } catch (error) {
    // The graph as exported is none the worse for a rewrite that ONNX Runtime does not run.
    if (!isTapirError(error, 'SESSION_FAILED') && !isTapirError(error, 'RUN_FAILED')) throw error;
    return fallBack(reasonOf(error));
  }
}

/** The batch that a graph was exported for: the first size of its inputs, where that is a number. */
function exportedBatch(rewrite: Rewrite): number | undefined {
  for (const { dims } of describeInputs(rewrite)) {
    const [batch] = dims ?? [];
    if (dims && dims.length > 1 && typeof batch === 'number' && batch > 0) return batch;
  }
  return undefined;
}

function hasOpenSizes(rewrite: Rewrite): boolean {
  return describeInputs(rewrite).some(
    ({ dims }) => dims?.slice(1).some((size) => typeof size !== 'number') !== false,
  );
}

/** The largest relative difference of any output, over several batches at once and over a single row. */
async function compareBatches(
  model: OnnxModel,
  fixed: Rewrite,
  dynamic: Rewrite,
  exported: number,
): Promise<number> {
  const inputs = describeInputs(fixed);
  const feeds = seededFeeds(inputs, SEED, { rows: exported, runs: BATCHES, named: {} });
  const rows = exported * BATCHES;
  const expected = await runIn(model, fixed, feeds);
  if (expected.some((tensor) => tensor.dims[0] !== rows)) return Infinity;
  // A part of a batch, too: what only works for multiples of the exported one is not dynamic.
  const part = exported > 1 ? 1 : BATCHES - 1;
  const isBatched = inputs.map(({ dims }) => dims !== null && dims.length > 1 && dims[0] === exported);
  const some = feeds.map((feed, i) =>
    isBatched[i] ? { name: feed.name, ...takeRows(feed, 0, part) } : feed,
  );
  const whole = await runIn(model, dynamic, feeds);
  const partial = await runIn(model, dynamic, some);
  return Math.max(
    ...expected.flatMap((tensor, i) => [
      compareTensors(whole[i]!, tensor).maxRelative,
      compareTensors(partial[i]!, takeRows(tensor, 0, part)).maxRelative,
    ]),
  );
}

async function runIn(model: OnnxModel, rewrite: Rewrite, feeds: readonly NamedTensor[]): Promise<Tensor[]> {
  const replica = await openExact(model, rewrite);
  try {
    const fetches = rewrite.outputs.map((output) => output.tensor);
    return await runBatch(replica, describeInputs(rewrite), feeds, fetches);
  } finally {
    await replica.close();
  }
}
