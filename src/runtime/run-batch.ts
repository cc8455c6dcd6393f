/** Running a model over a batch: at once, or piece by piece where the graph has a fixed one. */
import { gather } from '../tensor/gather.js';
import type { Feed } from '../tensor/image-feed.js';
import type { Replica, ReplicaRunOptions } from './replica.js';
import type { Tensor, NamedTensor } from '../tensor/tensor.js';
import { cutOut } from '../tensor/tensor-part.js';
import { hasSameRows, partsOf, readBatch, wholeRanges, type Batch, type RowRange } from '../tensor/batch.js';
import type { TensorInfo } from '../tensor/tensor-info.js';

/** A model that is run: what it must be fed and what is fetched, each once. */
export interface Runnable {
  readonly inputs: readonly TensorInfo[];
  readonly fetches: readonly string[];
  /** Whether rows of zeros can be added and taken off again, because each output has a row per sample. */
  readonly canPad: boolean;
}

/** Runs a range of a batch on a device. On a GPU it is filled up to a size that ran before. */
export async function runRange(
  replica: Replica,
  batch: Batch,
  range: RowRange,
  { fetches, canPad }: Runnable,
  options: ReplicaRunOptions,
): Promise<readonly NamedTensor[]> {
  const isPadded = canPad && batch.axis === 0 && batch.fixed === null && hasSameRows(batch);
  const size = isPadded && range.count > 0 ? replica.fitRows(range.count) : range.count;
  const outputs = await replica.run(partsOf(batch, range, size), fetches, options);
  if (size === range.count) return outputs;
  // Views of larger buffers would not be the caller's own.
  const { count } = range;
  return Promise.all(
    outputs.map((tensor) =>
      cutOut({ name: tensor.name, tensor, axis: 0, start: 0, count, size: count }, false, () => undefined),
    ),
  );
}

/**
 * Runs a model over feeds on one device.
 *
 * @returns The fetched tensors, in the order of `fetches`; one that is fetched twice is the same object.
 * @throws {@link TapirError} `BATCH_FIXED`, `INPUT_MISMATCH`; those of the replica.
 */
export async function runBatch(
  replica: Replica,
  inputs: readonly TensorInfo[],
  feeds: readonly Feed[],
  fetches: readonly string[],
  { canPad = false, signal, transfer }: ReplicaRunOptions & { readonly canPad?: boolean } = {},
): Promise<Tensor[]> {
  const batch = readBatch(inputs, feeds, 0);
  const ranges = wholeRanges(batch);
  // Pieces of one batch lie in one buffer, so they cannot be moved.
  const options = { signal, transfer: transfer === true && ranges.length === 1 };
  const names = [...new Set(fetches)];
  const model = { inputs, fetches: names, canPad };
  const runs = await Promise.all(ranges.map((range) => runRange(replica, batch, range, model, options)));
  const joined = await gather(runs, 0);
  const tensors = new Map(joined.map(({ name, ...tensor }) => [name, tensor]));
  return fetches.map((name) => tensors.get(name)!);
}
