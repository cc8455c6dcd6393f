/** How files of a source are read, whatever is made of them: within a limit of memory, and with the error of each file. */
import { isImageError, vanishedImage, type ImageError } from '../images/file/image-errors.js';
import { stampOfFailed } from '../images/lanes/decode-lanes.js';
import type { FileStamp } from '../../base/file-stamp.js';
import type { SourceItem } from './items/source-item.js';
import type { TriedInput } from './tried-input.js';

/** The most bytes of files in memory: archive entries, bytes from the source, answers of servers. */
export const MAX_FILE_BYTES: number = 256 * 1024 ** 2;
/** Counted for a file whose size is unknown, so that at most 32 of them are fetched at once. */
const UNKNOWN_FILE_BYTES = MAX_FILE_BYTES / 32;

/** The memory of a file while it is fetched and decoded. A path costs nothing here: its thread reads one file at a time. */
export function fileBytesOf({ image, stamp, error, clip }: SourceItem): number {
  if (clip?.files) return clip.files.reduce((sum, file) => sum + fileBytesOf(file), 0);
  if (error || typeof image === 'string') return 0;
  return image instanceof Uint8Array ? image.byteLength : (stamp?.sizeBytes ?? UNKNOWN_FILE_BYTES);
}

/** An input that cannot be read. An error that is not about this image (sharp is missing, a defect) is thrown: it must end the run. */
export function failedInput(item: SourceItem, error: unknown): Omit<TriedInput, 'rows'> {
  if (!isImageError(error)) throw error;
  const stamp = joinStamps(stampOfFailed(error), item.stamp);
  const { path, columns, clip } = item;
  return {
    path,
    columns,
    clipStart: clip?.start,
    width: null,
    height: null,
    reduction: 1,
    stamp,
    error: nameFailure(item, error),
  };
}

/** A missing file has vanished if the source has seen it before. */
function nameFailure(item: SourceItem, error: ImageError): ImageError {
  const isGone = item.listed === true && error.code === 'IMAGE_NOT_FOUND';
  return isGone ? vanishedImage(error.details.source, error) : error;
}

/** Completes the stamp of bytes, which lack a time, with what the source knows (from the index of an archive). */
export function joinStamps(read: FileStamp | undefined, listed: FileStamp | undefined): FileStamp | null {
  if (!read || !listed) return read ?? listed ?? null;
  const { modifiedMs, sha256 } = read;
  return { ...read, modifiedMs: modifiedMs ?? listed.modifiedMs, sha256: sha256 ?? listed.sha256 };
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
