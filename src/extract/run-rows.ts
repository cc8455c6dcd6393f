/** Running a session over any number of rows: at once, or batch by batch where the graph has a fixed one. */
import type { Lane, LaneRunOptions } from '../runtime/lane.js';
import { joinRows } from '../runtime/rows.js';
import type { Tensor } from '../runtime/tensor.js';
import { splitBatch, type Feed } from './feeds.js';
import type { TensorInfo } from './value-info.js';

/**
 * Runs a session over feeds.
 *
 * @returns The fetched tensors, in the order of `fetches`; one that is fetched twice is the same object.
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
  const names = [...new Set(fetches)];
  const runs = await Promise.all(batches.map((batch: Feed[]) => lane.run(batch, names, options)));
  const tensors = new Map(
    names.map((name, i): [string, Tensor] => {
      const { dtype, dims, data } = joinParts(runs.map((outputs) => outputs[i]!));
      return [name, { dtype, dims, data }];
    }),
  );
  return fetches.map((name) => tensors.get(name)!);
}

/** A single run needs no joining, and may have outputs without a batch axis. */
function joinParts(parts: readonly Tensor[]): Tensor {
  return parts.length === 1 ? parts[0]! : joinRows(parts);
}
