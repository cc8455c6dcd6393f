/**
 * Source items → batches of pixels in shared memory. A batch is a range of positions in the source, even if some images fail. A
 * bounded number of batches is open at once, so that a slow consumer slows the source down.
 */
import { stampOfFailed, type DecodeLanes } from '../../images/lanes/decode-lanes.js';
import { isImageError, vanishedImage, type ImageError } from '../../images/file/image-errors.js';
import type { FileStamp } from '../../base/file-stamp.js';
import type { TriedInput } from '../records/tried-input.js';
import { PAUSE, withPauses } from './pauses.js';
import type { SourceItem, SourceItems } from '../sources/items/source-item.js';

/** The number of images that are compared with the exact pixels, if `decode: 'fast'` reduces them. */
const MEASURED_IMAGES = 64;

/** The most bytes of files in memory: archive entries, bytes from the source, answers of servers. */
const MAX_FILE_BYTES = 256 * 1024 ** 2;
/** Counted for a file whose size is unknown, so that at most 32 of them are fetched at once. */
const UNKNOWN_FILE_BYTES = MAX_FILE_BYTES / 32;

/** An input that was read, or the reason why it could not be read. */
export interface LoadedItem extends TriedInput {
  /** Position in the source, from 0. */
  readonly index: number;
}

/** A loaded batch. */
export interface LoadedBatch {
  readonly items: readonly LoadedItem[];
  /** Pixels of the images, in the order of the items. Return them with {@link BatchLoader.release}. */
  readonly pixels: Uint8Array;
}

/** The size of the batches, and their number. */
export interface LoaderPlan {
  /** Items per batch. */
  readonly batch: number;
  /** Bytes of the pixels of an image. */
  readonly imageBytes: number;
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

/** Loads the items of a source ahead of the consumer. */
export class BatchLoader {
  readonly #lanes: DecodeLanes;
  readonly #plan: LoaderPlan;
  readonly #batches: Promise<LoadedBatch>[] = [];
  readonly #free: Uint8Array[] = [];
  readonly #files = new ByteBudget(MAX_FILE_BYTES);
  #open = 0;
  #isDone = false;
  #failure: { readonly error: unknown } | undefined;
  #wakeSource: (() => void) | undefined;
  #wakeConsumer: (() => void) | undefined;

  /** Starts at once. */
  constructor(source: SourceItems, lanes: DecodeLanes, plan: LoaderPlan) {
    this.#lanes = lanes;
    this.#plan = plan;
    void this.#fill(source);
  }

  /**
   * Returns the next batch, in order; undefined after the last one.
   *
   * @throws The error of the source, after the batches before it; an error that is not about a single image.
   */
  async next(): Promise<LoadedBatch | undefined> {
    while (this.#batches.length === 0 && !this.#isDone)
      await new Promise<void>((resolve) => {
        this.#wakeConsumer = resolve;
      });
    const batch = this.#batches.shift();
    if (batch === undefined && this.#failure) return Promise.reject(this.#failure.error as Error);
    return batch;
  }

  /** Returns the memory of a batch, to be filled again. */
  release(pixels: Uint8Array): void {
    this.#open--;
    this.#free.push(pixels);
    const { openBatches, refill } = this.#plan;
    if (this.#open <= openBatches - refill) this.#wakeSource?.();
  }

  /** Stops loading: the source is not read any further. */
  stop(): void {
    this.#isDone = true;
    this.#wakeSource?.();
    this.#wakeConsumer?.();
  }

  async #fill(source: SourceItems): Promise<void> {
    let pixels: Uint8Array | undefined;
    let items: Promise<LoadedItem>[] = [];
    let index = 0;
    let waitingSince: number | undefined;
    const finish = (): void => {
      if (pixels) this.#push(pixels, items);
      pixels = undefined;
      waitingSince = undefined;
      items = [];
    };
    try {
      const { maxWaitMs } = this.#plan;
      const given = maxWaitMs === undefined ? source : withPauses(source, maxWaitMs, () => waitingSince);
      for await (const item of given) {
        if (item === PAUSE) {
          finish();
          continue;
        }
        pixels ??= await this.#takePixels();
        const fileBytes = fileBytesOf(item);
        await this.#files.acquire(fileBytes);
        if (this.#isDone) return;
        waitingSince ??= performance.now();
        const loading = this.#load(item, index++, pixels, items.length).finally(() =>
          this.#files.release(fileBytes),
        );
        // Awaited with its batch. Until that is full, a failure must not count as unhandled.
        loading.catch(() => undefined);
        items.push(loading);
        if (items.length === this.#plan.batch) finish();
      }
    } catch (error) {
      this.#failure = { error };
    }
    finish();
    this.stop();
  }

  #push(pixels: Uint8Array, loading: readonly Promise<LoadedItem>[]): void {
    const batch = Promise.all(loading).then((items) => ({ items, pixels }));
    // Awaited in order. Until then, a failure must not count as unhandled.
    batch.catch(() => undefined);
    this.#batches.push(batch);
    this.#wakeConsumer?.();
  }

  async #takePixels(): Promise<Uint8Array> {
    const { openBatches, batch, imageBytes } = this.#plan;
    while (this.#open >= openBatches && !this.#isDone)
      await new Promise<void>((resolve) => {
        this.#wakeSource = resolve;
      });
    this.#open++;
    return this.#free.pop() ?? new Uint8Array(new SharedArrayBuffer(batch * imageBytes));
  }

  async #load(item: SourceItem, index: number, pixels: Uint8Array, place: number): Promise<LoadedItem> {
    const { path } = item;
    const { imageBytes } = this.#plan;
    try {
      if (item.error) throw item.error;
      const into = pixels.subarray(place * imageBytes, (place + 1) * imageBytes);
      const isMeasured = index < MEASURED_IMAGES;
      const image = typeof item.image === 'function' ? await item.image() : item.image;
      const { width, height, reduction, deviation, stamp } = await this.#lanes.load(
        image,
        into,
        isMeasured,
        item.augmentSeed,
      );
      return {
        index,
        path,
        width,
        height,
        reduction,
        ...(deviation ? { deviation } : {}),
        stamp: joinStamps(stamp, item.stamp),
        error: null,
      };
    } catch (error) {
      // An error that is not about this image (sharp is missing, a defect) must end the run.
      if (!isImageError(error)) throw error;
      const stamp = joinStamps(stampOfFailed(error), item.stamp);
      return { index, path, width: null, height: null, reduction: 1, stamp, error: nameFailure(item, error) };
    }
  }
}

/** The memory of a file while it is fetched and decoded. A path costs nothing here: its thread reads one file at a time. */
function fileBytesOf({ image, stamp, error }: SourceItem): number {
  if (error || typeof image === 'string') return 0;
  return image instanceof Uint8Array ? image.byteLength : (stamp?.sizeBytes ?? UNKNOWN_FILE_BYTES);
}

/** A missing file has vanished if the source has seen it before. */
function nameFailure(item: SourceItem, error: ImageError): ImageError {
  const isGone = item.listed === true && error.code === 'IMAGE_NOT_FOUND';
  return isGone ? vanishedImage(error.details.source, error) : error;
}

/** Completes the stamp of bytes, which lack a time, with what the source knows (from the index of an archive). */
function joinStamps(read: FileStamp | undefined, listed: FileStamp | undefined): FileStamp | null {
  if (!read || !listed) return read ?? listed ?? null;
  const { sizeBytes, modifiedMs, sha256 } = read;
  return { sizeBytes, modifiedMs: modifiedMs ?? listed.modifiedMs, sha256: sha256 ?? listed.sha256 };
}

/** A limit on the bytes that are in memory at once. Grants them in the order of the requests. */
export class ByteBudget {
  readonly #most: number;
  readonly #waiting: { readonly bytes: number; resolve(): void }[] = [];
  #held = 0;

  /** @param most - The bytes that may be held at once. A larger request is granted when nothing else is held. */
  constructor(most: number) {
    this.#most = most;
  }

  /** Waits until the bytes are granted. Return them with {@link release}. */
  async acquire(bytes: number): Promise<void> {
    if (this.#waiting.length === 0 && this.#fits(bytes)) this.#held += bytes;
    else await new Promise<void>((resolve) => this.#waiting.push({ bytes, resolve }));
  }

  /** Returns bytes, and grants waiting requests. */
  release(bytes: number): void {
    this.#held -= bytes;
    for (let next = this.#waiting[0]; next && this.#fits(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#held += next.bytes;
      next.resolve();
    }
  }

  #fits(bytes: number): boolean {
    return this.#held === 0 || this.#held + bytes <= this.#most;
  }
}
