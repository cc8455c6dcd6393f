/** Images in batches → feeds of a model, for what learns from photos. */
import type { DecodeLanes } from '../../images/lanes/decode-lanes.js';
import type { SourceItems } from '../sources/items/source-item.js';
import { fillFeed } from '../../tensor/image-feed.js';
import type { NamedTensor } from '../../tensor/tensor.js';
import type { ImageInput } from './image-input.js';
import { BatchLoader, type LoadedItem } from './loader.js';

/** Batches that are open at once: one that runs, one that is ready, and one that is being filled. */
const OPEN_BATCHES = 3;

/** A batch of images. */
export interface LoadedFeed {
  /** A row for each image that could be read. */
  readonly feed: NamedTensor;
  /** All items of the batch. */
  readonly items: readonly LoadedItem[];
  /** Those that could be read, in the order of the rows. */
  readonly read: readonly LoadedItem[];
}

/** Loads images ahead of the consumer, `batch` items at a time. */
export async function* loadFeeds(
  source: SourceItems,
  lanes: DecodeLanes,
  { feed, axes, imageBytes }: ImageInput,
  batch: number,
): AsyncGenerator<LoadedFeed> {
  const loader = new BatchLoader(source, lanes, { batch, imageBytes, openBatches: OPEN_BATCHES, refill: 1 });
  try {
    for (let loaded = await loader.next(); loaded; loaded = await loader.next()) {
      const { items, pixels } = loaded;
      const images = [...items.keys()].filter((place) => !items[place]!.error);
      const filled = fillFeed({ ...feed, dims: [images.length, ...axes], pixels, images });
      loader.release(pixels);
      yield { feed: filled, items, read: images.map((place) => items[place]!) };
    }
  } finally {
    loader.stop();
  }
}
