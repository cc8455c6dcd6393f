/** Runs a model over a batch: in one run, or in several if the graph has a fixed batch. */
import { isTapirError } from '../../base/errors.js';
import {
  hasSameRows,
  partsOf,
  readBatch,
  wholeRanges,
  type Batch,
  type RowRange,
} from '../../onnx/tensor/batch.js';
import { gather } from '../../onnx/tensor/gather.js';
import { isPatches, type Feed } from '../../onnx/tensor/image-feed.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { cutOut } from '../../onnx/tensor/tensor-part.js';
import type { NamedTensor, Tensor } from '../../onnx/tensor/tensor.js';
import type { Runner, ReplicaRunOptions } from './replica.js';

/** A model to run: its inputs, and the outputs to fetch, without repetition. */
export interface Runnable {
  readonly inputs: readonly TensorInfo[];
  readonly fetches: readonly string[];
  /** Whether rows of zeros can be added and removed again, because each output has a row per sample. */
  readonly canPad: boolean;
}

/** Runs a range of a batch on a device. On a GPU the range is padded to a size that is fast there. */
export async function runRange(
  replica: Runner,
  batch: Batch,
  range: RowRange,
  { fetches, canPad }: Runnable,
  options: ReplicaRunOptions,
): Promise<readonly NamedTensor[]> {
  const { count } = range;
  const runAt = (size: number): Promise<readonly NamedTensor[]> =>
    replica.run(partsOf(batch, range, size), fetches, options);
  // A model may fail on a photo without a patch.
  const isPaddable =
    canPad &&
    count > 0 &&
    batch.axis === 0 &&
    batch.fixed === null &&
    hasSameRows(batch) &&
    !batch.feeds.some(isPatches);
  const sizes = isPaddable ? replica.warmSizes : undefined;
  if (!sizes) return runAt(count);
  const size = sizes.fit(count);
  try {
    const outputs = await runAt(size);
    return size === count ? outputs : await dropRows(outputs, count);
  } catch (error) {
    sizes.forget();
    if (size === count || !isTapirError(error, 'RUN_FAILED')) throw error;
  }
  // Perhaps the rows fit into the device's memory without padding.
  const outputs = await runAt(count);
  sizes.refuse(size, count);
  return outputs;
}

/** The first rows, in buffers of their size: views would keep the larger buffers alive. */
function dropRows(outputs: readonly NamedTensor[], count: number): Promise<NamedTensor[]> {
  return Promise.all(
    outputs.map((tensor) =>
      cutOut({ name: tensor.name, tensor, axis: 0, start: 0, count, size: count }, false, () => undefined),
    ),
  );
}

/**
 * Runs a model over feeds on one device.
 *
 * @returns The fetched tensors, in the order of `fetches`. A tensor that is fetched twice is the same object.
 * @throws {@link TapirError} `BATCH_FIXED`, `INPUT_MISMATCH`; those of the replica.
 */
export async function runBatch(
  replica: Runner,
  inputs: readonly TensorInfo[],
  feeds: readonly Feed[],
  fetches: readonly string[],
  canPad = false,
): Promise<Tensor[]> {
  const batch = readBatch(inputs, feeds, 0);
  const model = { inputs, fetches: [...new Set(fetches)], canPad };
  const runs = await Promise.all(
    wholeRanges(batch).map((range) => runRange(replica, batch, range, model, {})),
  );
  const joined = await gather(runs, 0);
  const tensors = new Map(joined.map(({ name, ...tensor }) => [name, tensor]));
  return fetches.map((name) => tensors.get(name)!);
}
