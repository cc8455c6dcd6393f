/**
 * Source items → batches of pixels in shared memory. A batch is a range of positions in the source, whatever becomes of its
 * images; a bounded number of batches is open at once, so a slow consumer slows the source down.
 */
import { TapirError, type ImageErrorCode } from '../base/errors.js';
import { stampOfFailed, type DecodeLanes } from '../image/lanes/decode-lanes.js';
import { vanishedImage } from '../image/file/image-errors.js';
import type { FileStamp } from '../base/file-stamp.js';
import type { Deviation } from '../image/deviation.js';
import { ByteBudget } from './byte-budget.js';
import { PAUSE, withPauses } from './pauses.js';
import type { SourceItem } from '../sources/items/source-item.js';

/** The errors of single images: a run goes on over them. */
export type ImageError = TapirError<ImageErrorCode>;

/** So many are compared with the exact pixels, if a fast mode reduces them. */
const MEASURED_IMAGES = 64;

/** Files of images that are fetched or decoded: entries of archives, bytes that the source hands over, answers of servers. */
const MAX_FILE_BYTES = 256 * 1024 ** 2;
/** Counted for a file whose size shows when it is there: 32 of them are fetched at once. */
const UNKNOWN_FILE_BYTES = MAX_FILE_BYTES / 32;

/** An input that was read, or why it could not be. */
export interface LoadedItem {
  /** Position in the source, from 0. */
  readonly index: number;
  readonly path: string | null;
  /** Size of the file's image, before the transform. */
  readonly width: number | null;
  readonly height: number | null;
  /** How far the decoder has reduced each side, with `decode: 'fast'`. */
  readonly reduction: number;
  /** How far its pixels are from the exact ones, of reduced images among the first {@link MEASURED_IMAGES}. */
  readonly deviation?: Deviation;
  /** Of the file as it was read; of its last known state if it could not be read; null if nothing is known. */
  readonly stamp: FileStamp | null;
  readonly error: ImageError | null;
}

/** A batch that is ready. */
export interface LoadedBatch {
  readonly items: readonly LoadedItem[];
  /** Pixels of the images, each at its item's place; give them back with {@link BatchLoader.release}. */
  readonly pixels: Uint8Array;
}

/** Sizes of the batches, and how many there may be. */
export interface LoaderPlan {
  /** Items per batch. */
  readonly batch: number;
  /** Bytes of an image's pixels. */
  readonly imageBytes: number;
  /** Batches that are open at once: being filled, ready, or not yet released. */
  readonly openBatches: number;
  /** How many of them must be free before the source goes on: the more at once, the fewer messages to the threads. */
  readonly refill: number;
  /**
   * Longest time in milliseconds that an image waits for others of its batch while the source has none; undefined for ever, so
   * that batches are cut by position alone.
   */
  readonly maxWaitMs?: number | undefined;
}

/** Loads the items of a source, ahead of whoever takes the batches. */
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

  /** Begins at once. */
  constructor(
    source: AsyncIterable<SourceItem> | Iterable<SourceItem>,
    lanes: DecodeLanes,
    plan: LoaderPlan,
  ) {
    this.#lanes = lanes;
    this.#plan = plan;
    void this.#fill(source);
  }

  /**
   * The next batch, in order; undefined after the last one.
   *
   * @throws What the source throws, after the batches before; what no image is to blame for.
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

  /** Gives a batch's memory back, to be filled again. */
  release(pixels: Uint8Array): void {
    this.#open--;
    this.#free.push(pixels);
    const { openBatches, refill } = this.#plan;
    if (this.#open <= openBatches - refill) this.#wakeSource?.();
  }

  /** Ends loading: nothing more is taken from the source. */
  stop(): void {
    this.#isDone = true;
    this.#wakeSource?.();
    this.#wakeConsumer?.();
  }

  async #fill(source: AsyncIterable<SourceItem> | Iterable<SourceItem>): Promise<void> {
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
      const given =
        maxWaitMs === undefined
          ? source
          : withPauses(source, { maxWaitMs, waitingSince: () => waitingSince });
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
        // Awaited with its batch; until that is full, a failure must not count as unhandled.
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
    // Taken in order later; until then a failure must not count as unhandled.
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
      const { width, height, reduction, deviation, stamp } = await this.#lanes.load(image, into, isMeasured);
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
      // Whatever is not about this image (sharp missing, a defect) must end the run.
      if (!isImageError(error)) throw error;
      const stamp = joinStamps(stampOfFailed(error), item.stamp);
      return { index, path, width: null, height: null, reduction: 1, stamp, error: nameFailure(item, error) };
    }
  }
}

/** What an image's file takes while it is fetched and decoded; a path's is read where it is decoded, one at a time. */
function fileBytesOf({ image, stamp, error }: SourceItem): number {
  if (error || typeof image === 'string') return 0;
  return image instanceof Uint8Array ? image.byteLength : (stamp?.sizeBytes ?? UNKNOWN_FILE_BYTES);
}

function isImageError(error: unknown): error is ImageError {
  return error instanceof TapirError && error.code.startsWith('IMAGE_');
}

/** A file that is not there is another thing if the source has found it there before. */
function nameFailure(item: SourceItem, error: ImageError): ImageError {
  const isGone = item.listed === true && error.code === 'IMAGE_NOT_FOUND';
  return isGone ? vanishedImage(error.details.source, error) : error;
}

/** What was read, and of bytes without a file of their own (an archive's entry) the time that the source knows. */
function joinStamps(read: FileStamp | undefined, listed: FileStamp | undefined): FileStamp | null {
  if (!read || !listed) return read ?? listed ?? null;
  const { sizeBytes, modifiedMs, sha256 } = read;
  return { sizeBytes, modifiedMs: modifiedMs ?? listed.modifiedMs, sha256: sha256 ?? listed.sha256 };
}
