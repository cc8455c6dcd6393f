/** Running a session over any number of rows: at once, or batch by batch where the graph has a fixed one. */
import type { Lane, LaneRunOptions } from '../runtime/lane.js';
import { joinRows } from '../runtime/rows.js';
import type { Tensor } from '../runtime/tensor.js';
import { splitBatch, type Feed } from './feeds.js';
import type { TensorInfo } from './value-info.js';

/**
 * Runs a session over feeds.
 *
 * @returns The fetched tensors, in the order of `fetches`.
 * @throws {@link TapirError} `BATCH_FIXED`, `INPUT_MISMATCH`; those of the lane.
 */
export async function runRows(
  lane: Lane,
  inputs: readonly TensorInfo[],
  feeds: readonly Feed[],
  fetches: readonly string[],
  { signal, transfer }: LaneRunOptions = {},
): Promise<Tensor[]> {
  const batches = splitBatch(inputs, feeds);
  // Parts of one batch are views of one buffer, so they cannot be moved.
  const options = { signal, transfer: transfer === true && batches.length === 1 };
  const runs = await Promise.all(batches.map((batch: Feed[]) => lane.run(batch, fetches, options)));
  return fetches.map((_, i) => {
    const { dtype, dims, data } = joinParts(runs.map((outputs) => outputs[i]!));
    return { dtype, dims, data };
  });
}

/** A single run needs no joining, and may have outputs without a batch axis. */
function joinParts(parts: readonly Tensor[]): Tensor {
  return parts.length === 1 ? parts[0]! : joinRows(parts);
}
