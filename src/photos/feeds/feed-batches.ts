/**
 * Batches of photos in shared memory, filled ahead of the consumer. A bounded number is open at once, so that a slow consumer slows the
 * source down.
 */
import type { TriedInput } from './tried-input.js';
import type { FeedPlan } from './feed-plan.js';
import type { NamedTensor } from '../../onnx/tensor/tensor.js';
import { PhotoMemory } from './photo-memory.js';
import { PAUSE, withPauses } from './pauses.js';
import { ByteBudget, MAX_FILE_BYTES } from './read-item.js';
import type { SourceItem, SourceItems } from './items/source-item.js';

/** An input that was read, or the reason why it could not be read. */
export interface LoadedItem extends TriedInput {
  /** Position in the source, from 0. */
  readonly index: number;
}

/** What fills a batch: the items of a range of the source, and the places in memory of the photos that could be read, in their order. */
export interface Filled {
  readonly items: readonly LoadedItem[];
  readonly photos: readonly number[];
}

/** A loaded batch. */
export interface FeedBatch extends Filled {
  readonly memory: PhotoMemory;
  /** Gives the memory back, to be filled again. */
  readonly release: () => void;
  /** Releases the batch, and gives its photos by input, in memory of their own; without rows if no photo could be read. */
  readonly take: () => Readonly<Record<string, NamedTensor>>;
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

/** Reads a source through the queue, and fills batches of it. */
type FillBatches = (queue: FeedBatches) => Promise<void>;

/** The queue between what fills batches and what runs them. */
export class FeedBatches implements Feeds {
  /** The bytes of files that are being read. */
  readonly files: ByteBudget = new ByteBudget(MAX_FILE_BYTES);
  readonly #source: SourceItems;
  readonly #plan: FeedPlan;
  readonly #options: FeedOptions;
  readonly #batches: Promise<FeedBatch>[] = [];
  readonly #free: PhotoMemory[] = [];
  #open = 0;
  /** When the oldest item came that no pushed batch has; undefined if there is none. */
  #waitingSince: number | undefined;
  #isDone = false;
  #failure: { readonly error: unknown } | undefined;
  #wakeSource: (() => void) | undefined;
  #wakeConsumer: (() => void) | undefined;

  /** Starts at once. */
  constructor(source: SourceItems, plan: FeedPlan, options: FeedOptions, fill: FillBatches) {
    this.#source = source;
    this.#plan = plan;
    this.#options = options;
    void this.#run(fill);
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

  stop(): void {
    this.#isDone = true;
    this.#wakeSource?.();
    this.#wakeConsumer?.();
  }

  /** Items or tiles per batch. */
  get batch(): number {
    return this.#options.batch;
  }

  /** Throws once the queue has stopped: what fills it ends, and nobody hears of it. */
  throwIfStopped(): void {
    if (this.#isDone) throw new Error('the queue has stopped');
  }

  /**
   * The items of the source, and {@link PAUSE} where the oldest that no pushed batch has waits too long. Ends where the source fails; the
   * failure comes after the batches.
   */
  async *items(): AsyncGenerator<SourceItem | typeof PAUSE> {
    const { maxWaitMs } = this.#options;
    const given =
      maxWaitMs === undefined ? this.#source : withPauses(this.#source, maxWaitMs, () => this.#waitingSince);
    try {
      for await (const item of given) {
        if (this.#isDone) return;
        if (item === PAUSE) this.#waitingSince = undefined;
        else this.#waitingSince ??= performance.now();
        yield item;
      }
    } catch (error) {
      this.#failure = { error };
    }
  }

  /** Memory for the next batch, once fewer are open than may be. */
  async begin(): Promise<PhotoMemory> {
    const { openBatches, batch } = this.#options;
    while (this.#open >= openBatches && !this.#isDone)
      await new Promise<void>((resolve) => {
        this.#wakeSource = resolve;
      });
    this.throwIfStopped();
    this.#open++;
    // An item does not wait for others while it waits for memory.
    this.#waitingSince = performance.now();
    return this.#free.pop() ?? new PhotoMemory(this.#plan, batch);
  }

  /** Hands a batch to the consumer, which waits for its photos. */
  push(memory: PhotoMemory, filled: Filled | Promise<Filled>): void {
    this.#waitingSince = undefined;
    const release = (): void => this.#release(memory);
    const batch = Promise.resolve(filled).then(({ items, photos }) => ({
      items,
      photos,
      memory,
      release,
      take: () => {
        const tensors = memory.tensors(photos);
        release();
        return tensors;
      },
    }));
    // Awaited in order. Until then, a failure must not count as unhandled.
    batch.catch(() => undefined);
    this.#batches.push(batch);
    this.#wakeConsumer?.();
  }

  async #run(fill: FillBatches): Promise<void> {
    try {
      await fill(this);
    } catch (error) {
      if (!this.#isDone) this.#failure = { error };
    }
    this.stop();
  }

  #release(memory: PhotoMemory): void {
    this.#open--;
    this.#free.push(memory);
    const { openBatches, refill } = this.#options;
    if (this.#open <= openBatches - refill) this.#wakeSource?.();
  }
}
