/** The batcher of images: decoding threads write into shared memory, and the extractor runs on it. */
import { openDecodeLanes, runApart } from '../../datasets/embed/embed-batches.js';
import { extractorInternals, runsAtOnce, type Extractor } from '../../extract/extractor.js';
import type { DecodeLanes } from '../../images/lanes/decode-lanes.js';
import { PhotoMemory } from '../../feeds/photo-memory.js';
import type { Tensor } from '../../tensor/tensor.js';
import { Batcher, placesOf } from './batcher.js';
import type { ServiceSetup } from './service-options.js';

/** An image's features by key, without the batch axis. They are views of the run's outputs. */
export type ImageFeatures = Readonly<Record<string, Tensor>>;

export type ImageBatcher = Batcher<Uint8Array, ImageFeatures>;

/** For each thread, an image that is being decoded and one whose bytes are on their way. */
const IMAGES_PER_THREAD = 2;

/** An image batcher, its threads, and a sample of its results. */
export interface OpenBatcher {
  readonly batcher: ImageBatcher;
  readonly lanes: DecodeLanes;
  /** Features of a black image, which show their dtypes and dims. */
  readonly sample: ImageFeatures;
}

/**
 * Opens the batcher and runs one black image: errors of the model show here, and the first request finds the session warm.
 *
 * @param onRun - Called after each run. The seconds include the wait for the device.
 * @throws {@link TapirError} `OUTPUT_NOT_BATCHED`; errors of a run.
 */
export async function openImageBatcher(
  extractor: Extractor,
  setup: ServiceSetup,
  onRun: (images: number, seconds: number) => void,
): Promise<OpenBatcher> {
  const { maxBatch, maxWaitMs, maxQueue, embed } = setup;
  const lanes = openDecodeLanes(extractor, embed);
  const sessions = extractorInternals.of(extractor).sessions.length;
  const decodesAtOnce = IMAGES_PER_THREAD * lanes.most;
  const plan = { maxBatch, maxWaitMs, maxQueue, decodesAtOnce, sessions, runsAtOnce: runsAtOnce(extractor) };
  const memory = new PhotoMemory(embed.feeds, placesOf(plan));
  const run = (places: readonly number[]): Promise<readonly ImageFeatures[]> =>
    runApart(extractor, memory, places, embed);
  lanes.warm();
  const [sample] = await run([0]).catch(async (error: unknown) => {
    await lanes.close();
    throw error;
  });
  const batcher = new Batcher<Uint8Array, ImageFeatures>(
    {
      shapeOf: (place) => memory.shapeOf(place),
      decode: (image, place) => memory.load(lanes, place, image),
      run: async (places) => {
        const started = performance.now();
        const rows = await run(places);
        onRun(places.length, (performance.now() - started) / 1000);
        return rows;
      },
    },
    plan,
  );
  return { batcher, lanes, sample: sample! };
}
