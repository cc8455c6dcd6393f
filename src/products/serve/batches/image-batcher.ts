/** The batcher of images: decoding threads write into shared memory, and the extractor runs on it. */
import { openDecodeLanes, runApart } from '../../../datasets/embed/embed-batches.js';
import { extractorInternals, type Extractor } from '../../../extract/extractor.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import { PhotoMemory } from '../../../photos/feeds/photo-memory.js';
import { Batcher, placesOf } from './batcher.js';
import type { ServiceSetup } from './service-options.js';

/** An image's features by key, without the batch axis. They are views of the run's outputs. */
export type ImageFeatures = Readonly<Record<string, Tensor>>;

/** For each thread, an image that is being decoded and one whose bytes are on their way. */
const IMAGES_PER_THREAD = 2;

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
  extractor: Extractor,
  { maxBatch, maxWaitMs, maxQueue, photos }: ServiceSetup,
  onRun: (images: number, seconds: number) => void,
): Promise<OpenBatcher> {
  const lanes = openDecodeLanes(extractor, photos);
  const { sessions, runsAtOnce } = extractorInternals.of(extractor);
  const decodesAtOnce = IMAGES_PER_THREAD * lanes.most;
  const plan = { maxBatch, maxWaitMs, maxQueue, decodesAtOnce, sessions: sessions.length, runsAtOnce };
  const memory = new PhotoMemory(photos.feeds, placesOf(plan));
  lanes.warm();
  // A place that was never filled holds a black image.
  const [sample] = await runApart(extractor, memory, [0], photos).catch(async (error: unknown) => {
    await lanes.close();
    throw error;
  });
  const batcher = new Batcher<Uint8Array, ImageFeatures>(
    {
      shapeOf: (place) => memory.shapeOf(place),
      decode: (image, place) => memory.load(lanes, place, image),
      run: async (places) => {
        const started = performance.now();
        const rows = await runApart(extractor, memory, places, photos);
        onRun(places.length, (performance.now() - started) / 1000);
        return rows;
      },
    },
    plan,
  );
  return { batcher, sample: sample!, close: () => lanes.close() };
}
