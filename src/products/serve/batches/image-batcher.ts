/** The batcher of images: decoding threads write into shared memory, and the extractor runs on it. */
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import { Batcher, placesOf } from './batcher.js';
import type { ServiceSetup } from './service-options.js';

/** An image's features by key, without the batch axis. They are views of the run's outputs. */
export type ImageFeatures = Readonly<Record<string, Tensor>>;

export type ImageBatcher = Batcher<Uint8Array, ImageFeatures>;

/** An image batcher, and a sample of its results. */
export interface OpenBatcher {
  readonly batcher: ImageBatcher;
  /** Features of a black image, which show their dtypes and dims. */
  readonly sample: ImageFeatures;
  /** Ends its threads. */
  readonly close: () => Promise<void>;
}

/**
 * Opens the batcher and runs one black image: errors of the model show here, and the first request finds the session warm.
 *
 * @param onRun - Called after each run. The seconds include the wait for the device.
 * @throws {@link TapirError} `OUTPUT_NOT_BATCHED`; errors of a run.
 */
export async function openImageBatcher(
  { maxBatch, maxWaitMs, maxQueue, photos }: ServiceSetup,
  onRun: (images: number, seconds: number) => void,
): Promise<OpenBatcher> {
  const own = { maxBatch, maxWaitMs, maxQueue };
  const { limits, load, run, shapeOf, close } = photos.open((most) => placesOf({ ...own, ...most }));
  const [sample] = await run([0]).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  const batcher = new Batcher<Uint8Array, ImageFeatures>(
    {
      shapeOf,
      decode: (image, place) => load(place, image),
      run: async (places) => {
        const started = performance.now();
        const rows = await run(places);
        onRun(places.length, (performance.now() - started) / 1000);
        return rows;
      },
    },
    { ...own, ...limits },
  );
  return { batcher, sample: sample!, close };
}
