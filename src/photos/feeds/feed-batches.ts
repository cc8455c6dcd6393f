/**
 * Source items → batches of photos in shared memory. A batch is a range of positions in the source, even if some photos fail. A
 * bounded number of batches is open at once, so that a slow consumer slows the source down.
 */
import type { DecodeLanes } from '../images/lanes/decode-lanes.js';
import type { TriedInput } from './tried-input.js';
import type { FeedPlan } from './feed-plan.js';
import { loadFrames } from './load-frames.js';
import { PhotoMemory, type RowRange } from './photo-memory.js';
import { PAUSE, withPauses } from './pauses.js';
import { ByteBudget, failedInput, fileBytesOf, joinStamps, MAX_FILE_BYTES } from './read-item.js';
import { fileOf, type SourceItem, type SourceItems } from './items/source-item.js';

/** The number of images that are compared with the exact pixels, if `decode: 'fast'` reduces them. */
const MEASURED_IMAGES = 64;

/** An input that was read, or the reason why it could not be read. */
export interface LoadedItem extends TriedInput {
  /** Position in the source, from 0. */
  readonly index: number;
}

/** An item before its batch is complete. */
type LoadingItem = Omit<LoadedItem, 'rows'>;

/** A loaded batch. */
export interface FeedBatch {
  readonly items: readonly LoadedItem[];
  readonly memory: PhotoMemory;
  /** The places in memory of the photos that could be read, in the order of the items. */
  readonly photos: readonly number[];
  /** Gives the memory back, to be filled again. */
  readonly release: () => void;
}

/** Batches of a source, loaded ahead of the consumer. */
export interface Feeds extends AsyncIterable<FeedBatch> {
  /**
   * Returns the next batch, in order; undefined after the last one.
   *
   * @throws The error of the source, after the batches before it; an error that is not about a single image.
   */
  next(): Promise<FeedBatch | undefined>;
  /** Stops loading: the source is not read any further. */
  stop(): void;
}

/** The size of the batches, and their number. */
export interface FeedOptions {
  /** Items per batch. */
  readonly batch: number;
  /** The most batches that are open at once: being filled, ready, or not released yet. */
  readonly openBatches: number;
  /** Batches that must be free before the source is read on. More at once means fewer messages to the threads. */
  readonly refill: number;
  /**
   * The longest time in milliseconds that an image waits for others of its batch while the source pauses. If undefined, only the
   * position decides where a batch ends.
   */
  readonly maxWaitMs?: number | undefined;
}

/** Loads the photos of a source ahead of the consumer. */
export class FeedBatches implements Feeds {
  readonly #lanes: DecodeLanes;
  readonly #plan: FeedPlan;
  readonly #options: FeedOptions;
  readonly #batches: Promise<FeedBatch>[] = [];
  readonly #free: PhotoMemory[] = [];
  readonly #files = new ByteBudget(MAX_FILE_BYTES);
  #open = 0;
  #isDone = false;
  #failure: { readonly error: unknown } | undefined;
  #wakeSource: (() => void) | undefined;
  #wakeConsumer: (() => void) | undefined;

  /** Starts at once. */
  constructor(source: SourceItems, plan: FeedPlan, lanes: DecodeLanes, options: FeedOptions) {
    this.#lanes = lanes;
    this.#plan = plan;
    this.#options = options;
    void this.#fill(source);
  }

  async next(): Promise<FeedBatch | undefined> {
    while (this.#batches.length === 0 && !this.#isDone)
      await new Promise<void>((resolve) => {
        this.#wakeConsumer = resolve;
      });
    const batch = this.#batches.shift();
    if (batch === undefined && this.#failure) return Promise.reject(this.#failure.error as Error);
    return batch;
  }

  /** The batches, in order. Leaving the loop stops the source. */
  async *[Symbol.asyncIterator](): AsyncGenerator<FeedBatch> {
    try {
      for (let batch = await this.next(); batch; batch = await this.next()) yield batch;
    } finally {
      this.stop();
    }
  }

  #release(memory: PhotoMemory): void {
    this.#open--;
    this.#free.push(memory);
    const { openBatches, refill } = this.#options;
    if (this.#open <= openBatches - refill) this.#wakeSource?.();
  }

  stop(): void {
    this.#isDone = true;
    this.#wakeSource?.();
    this.#wakeConsumer?.();
  }

  async #fill(source: SourceItems): Promise<void> {
    let memory: PhotoMemory | undefined;
    let items: Promise<LoadingItem>[] = [];
    let index = 0;
    let waitingSince: number | undefined;
    const finish = (): void => {
      if (memory) this.#push(memory, items);
      memory = undefined;
      waitingSince = undefined;
      items = [];
    };
    try {
      const { maxWaitMs, batch } = this.#options;
      const given = maxWaitMs === undefined ? source : withPauses(source, maxWaitMs, () => waitingSince);
      for await (const item of given) {
        if (item === PAUSE) {
          finish();
          continue;
        }
        memory ??= await this.#takeMemory();
        const fileBytes = fileBytesOf(item);
        await this.#files.acquire(fileBytes);
        if (this.#isDone) return;
        waitingSince ??= performance.now();
        const loading = this.#load(item, index++, memory, items.length).finally(() =>
          this.#files.release(fileBytes),
        );
        // Awaited with its batch. Until that is full, a failure must not count as unhandled.
        loading.catch(() => undefined);
        items.push(loading);
        if (items.length === batch) finish();
      }
    } catch (error) {
      this.#failure = { error };
    }
    finish();
    this.stop();
  }

  #push(memory: PhotoMemory, loading: readonly Promise<LoadingItem>[]): void {
    const batch = Promise.all(loading).then((loaded) => {
      const photos = loaded.flatMap(({ error }, place) => (error ? [] : [place]));
      const ranges = memory.rangesOf(photos).values();
      let next: RowRange = [0, 0];
      const items = loaded.map((item) => {
        if (item.error) return { ...item, rows: [next[0] + next[1], 0] as const };
        next = ranges.next().value!;
        return { ...item, rows: next };
      });
      return { items, memory, photos, release: () => this.#release(memory) };
    });
    // Awaited in order. Until then, a failure must not count as unhandled.
    batch.catch(() => undefined);
    this.#batches.push(batch);
    this.#wakeConsumer?.();
  }

  async #takeMemory(): Promise<PhotoMemory> {
    const { openBatches, batch } = this.#options;
    while (this.#open >= openBatches && !this.#isDone)
      await new Promise<void>((resolve) => {
        this.#wakeSource = resolve;
      });
    this.#open++;
    return this.#free.pop() ?? new PhotoMemory(this.#plan, batch);
  }

  async #load(item: SourceItem, index: number, memory: PhotoMemory, place: number): Promise<LoadingItem> {
    const { path, columns, clip } = item;
    const { clips } = this.#plan.processor;
    try {
      if (item.error) throw item.error;
      const isMeasured = index < MEASURED_IMAGES;
      const { width, height, reduction, marks, deviation, stamp } =
        clip && clips
          ? await loadFrames(item, clip, clips, this.#lanes, memory.place(place))
          : await memory.load(this.#lanes, place, await fileOf(item), isMeasured, item.augmentSeed);
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
}
