/** Whether a model file is still the one that was opened. */
import { statSync, type Stats } from 'node:fs';
import { TapirError } from './errors.js';

/** A file, and what tells its content from what was there before. */
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
