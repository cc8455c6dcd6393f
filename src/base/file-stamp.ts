/** Stamps of files: a file that has changed has another stamp. */
import { statSync, type Stats } from 'node:fs';
import { TapirError } from './errors.js';

/** The stamp of an image file. */
export interface FileStamp {
  readonly sizeBytes: number;
  /** Whole milliseconds since 1970; null if unknown. */
  readonly modifiedMs: number | null;
  /** SHA-256 of the content, in hex; null unless it was asked for, or a dataset was given bytes without a time. */
  readonly sha256: string | null;
  /** The first 16 bytes of the SHA-256 of the content, in hex: a dataset has it of each photo that it read, for `reuse`. */
  readonly digest?: string;
}

/** A model file and its stamp at the time it was opened. */
export interface StampedFile {
  readonly path: string;
  /** Changes when the file is replaced or written to. */
  readonly stamp: string;
}

/** Returns the stamp of a file from its status. */
export function stampOf({ dev, ino, size, mtimeMs }: Stats): string {
  return `${dev}:${ino}:${size}:${mtimeMs}`;
}

/** Makes the error for a model file that changed. */
export function modelChanged(path: string): TapirError<'MODEL_CHANGED'> {
  const message = `"${path}" changed on disk after it was opened; open the model again`;
  return new TapirError('MODEL_CHANGED', message, { details: { source: path } });
}

/** Checks that a model file is still the same. Throws `MODEL_CHANGED` if it was replaced, written to or removed. */
export function checkUnchanged({ path, stamp }: StampedFile): void {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats || stampOf(stats) !== stamp) throw modelChanged(path);
}
