/**
 * The one way from photos to feeds: a source and a plan into batches. A batch is a range of positions in the source, even if some photos
 * fail; of a plan with tiles, see {@link fillTiles}.
 */
import type { DecodeLanes } from '../images/lanes/decode-lanes.js';
import { FeedBatches, type FeedOptions, type Feeds, type Filled, type LoadedItem } from './feed-batches.js';
import type { FeedPlan } from './feed-plan.js';
import { fillTiles } from './fill-tiles.js';
import { fileOf, type SourceItem, type SourceItems } from './items/source-item.js';
import { loadFrames } from './load-frames.js';
import { PAUSE } from './pauses.js';
import type { PhotoMemory, RowRange } from './photo-memory.js';
import { failedInput, fileBytesOf, joinStamps } from './read-item.js';

/** Batches that are open at once where nobody says otherwise: one that runs, one that is ready, and one that is being filled. */
const FEW_BATCHES = { openBatches: 3, refill: 1 } as const;
/** The number of images that are compared with the exact pixels, if `decode: 'fast'` reduces them. */
const MEASURED_IMAGES = 64;

/** An item before its batch is complete. */
type LoadingItem = Omit<LoadedItem, 'rows'>;

/**
 * Loads the photos of a source as feeds of a model, ahead of the consumer: whole, or in tiles if the plan says so. Starts at once.
 *
 * @param lanes - Decoding threads of the plan's transform. They stay open.
 */
export function openPhotos(
  source: SourceItems,
  plan: FeedPlan,
  lanes: DecodeLanes,
  options: Pick<FeedOptions, 'batch'> & Partial<FeedOptions>,
): Feeds {
  const { tiles } = plan.processor;
  return new FeedBatches(source, plan, { ...FEW_BATCHES, ...options }, (queue) =>
    tiles ? fillTiles(queue, plan, tiles, lanes) : fillPhotos(queue, plan, lanes),
  );
}

/** Fills each batch with the next items of the source, which load side by side. */
async function fillPhotos(queue: FeedBatches, plan: FeedPlan, lanes: DecodeLanes): Promise<void> {
  let memory: PhotoMemory | undefined;
  let loading: Promise<LoadingItem>[] = [];
  let index = 0;
  const finish = (): void => {
    if (memory) queue.push(memory, placeRows(memory, loading));
    memory = undefined;
    loading = [];
  };
  for await (const item of queue.items()) {
    if (item === PAUSE) {
      finish();
      continue;
    }
    memory ??= await queue.begin();
    const fileBytes = fileBytesOf(item);
    await queue.files.acquire(fileBytes);
    queue.throwIfStopped();
    const place = { memory, index: index++, place: loading.length };
    const one = loadItem(item, place, plan, lanes).finally(() => queue.files.release(fileBytes));
    // Awaited with its batch. Until that is full, a failure must not count as unhandled.
    one.catch(() => undefined);
    loading.push(one);
    if (loading.length === queue.batch) finish();
  }
  finish();
}

/** The items of a batch when all are loaded, each with its rows. */
async function placeRows(memory: PhotoMemory, loading: readonly Promise<LoadingItem>[]): Promise<Filled> {
  const loaded = await Promise.all(loading);
  const photos = loaded.flatMap(({ error }, place) => (error ? [] : [place]));
  const ranges = memory.rangesOf(photos).values();
  let next: RowRange = [0, 0];
  const items: LoadedItem[] = [];
  for (const item of loaded) {
    next = item.error ? [next[0] + next[1], 0] : ranges.next().value!;
    items.push({ ...item, rows: next });
  }
  return { items, photos };
}

/** Loads a photo or a clip into a place of memory. */
async function loadItem(
  item: SourceItem,
  { memory, index, place }: { readonly memory: PhotoMemory; readonly index: number; readonly place: number },
  plan: FeedPlan,
  lanes: DecodeLanes,
): Promise<LoadingItem> {
  const { path, columns, clip } = item;
  const { clips } = plan.processor;
  try {
    if (item.error) throw item.error;
    const isMeasured = index < MEASURED_IMAGES;
    const { width, height, reduction, marks, deviation, stamp } =
      clip && clips
        ? await loadFrames(item, clip, clips, lanes, memory.place(place))
        : await memory.load(lanes, place, await fileOf(item), isMeasured, item.augmentSeed);
    return {
      index,
      path,
      columns,
      clipStart: clip?.start,
      width,
      height,
      reduction,
      marks,
      ...(deviation ? { deviation } : {}),
      stamp: joinStamps(stamp, item.stamp),
      error: null,
    };
  } catch (error) {
    return { index, ...failedInput(item, error) };
  }
}
