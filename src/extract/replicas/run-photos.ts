/** Photos in memory → what each of them has of every output. */
import { takePhoto, type PhotoMemory, type UnlikeRun } from '../../photos/feeds/photo-memory.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import { mapInOrder } from '../../base/map-in-order.js';
import { noRowPerImage, type ReplicaSet } from './replica-set.js';

/** The features of a photo by key, without the batch axis. They may be views of the run's outputs. */
export type PhotoFeatures = Readonly<Record<string, Tensor>>;

/**
 * Runs photos, and gives what each has of the outputs, in their order. Photos that decide the sizes of their feeds run sorted by shape,
 * at most `batch` at once.
 *
 * @param photos - Their places in memory, at least one. The memory must not change until the call settles.
 * @throws {@link TapirError} `OUTPUT_NOT_BATCHED` for an output of which it cannot be told what a photo has; those of a run.
 */
export async function runPhotosApart(
  set: ReplicaSet,
  memory: PhotoMemory,
  photos: readonly number[],
  batch: number,
  how: { readonly signal: AbortSignal | undefined; readonly isKept?: boolean },
): Promise<PhotoFeatures[]> {
  if (!memory.isUnlike) {
    const { feeds, take } = memory.run(photos);
    const outputs = mapValues(await set.runRows(feeds, how), take);
    return memory.rangesOf(photos).map((range) => mapValues(outputs, (tensor) => takePhoto(tensor, range)));
  }
  const features: PhotoFeatures[] = [];
  const runs = memory.unlikeRuns(photos, batch);
  const run = async (one: UnlikeRun): Promise<void> => {
    const outputs = await set.runRows(one.feeds, { ...how, isPerRow: one.hasRows });
    one.photos.forEach((photo, index) => {
      features[photo] = mapValues(outputs, (tensor, key) => partOf(set, one, key, tensor, index));
    });
  };
  for await (const _ of mapInOrder(runs, set.runsAtOnce, run));
  return features;
}

function partOf(set: ReplicaSet, run: UnlikeRun, key: string, tensor: Tensor, index: number): Tensor {
  const output = set.model.outputs.find(({ name }) => name === key)!;
  const part = run.partOf(output, tensor, index);
  if (part) return part;
  throw noRowPerImage(key, tensor.dims, run.rows);
}

function mapValues(
  outputs: Readonly<Record<string, Tensor>>,
  make: (tensor: Tensor, key: string) => Tensor,
): PhotoFeatures {
  return Object.fromEntries(Object.entries(outputs).map(([key, tensor]) => [key, make(tensor, key)]));
}
