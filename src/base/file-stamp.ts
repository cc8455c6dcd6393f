/** Stamps: they tell whether a file changed since it was read. */
import { statSync, type Stats } from 'node:fs';
import { TapirError } from './errors.js';

/** The stamp of an image file. */
export interface FileStamp {
  readonly sizeBytes: number;
  /** Whole milliseconds since 1970; null if unknown. */
  readonly modifiedMs: number | null;
  /** SHA-256 of the content, in hex; null unless it was asked for. */
  readonly sha256: string | null;
}

/** A model file, and what tells its content from what was there before. */
export interface StampedFile {
  readonly path: string;
  /** Differs after the file was replaced or written to. */
  readonly stamp: string;
}

export function stampOf({ dev, ino, size, mtimeMs }: Stats): string {
  return `${dev}:${ino}:${size}:${mtimeMs}`;
}

export function modelChanged(path: string): TapirError<'MODEL_CHANGED'> {
  const message = `"${path}" changed on disk after it was opened; open the model again`;
  return new TapirError('MODEL_CHANGED', message, { details: { source: path } });
}

/** Throws `MODEL_CHANGED` if a model file was replaced, written to or removed. */
export function checkUnchanged({ path, stamp }: StampedFile): void {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats || stampOf(stats) !== stamp) throw modelChanged(path);
}
