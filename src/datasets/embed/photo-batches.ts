/** How photos become batches of tensors, for what takes tensors. */
import { integer, type Fields } from '../../base/options.js';
import type { ImageError } from '../../photos/images/file/image-errors.js';
import type { BatchSource } from '../../extract/replicas/batch-pieces.js';
import { photoFields, type PhotoOptions } from '../../photos/feeds/photo-options.js';
import { SOURCE_FIELDS, type SourceOptions } from '../../photos/feeds/items/source-options.js';
import type { EmbedSource } from '../sources/open-source.js';

/** Batches of tensors, or photos as for `embedImages`. */
export type LearnSource = BatchSource | EmbedSource;

/** How photos become batches. `tiles` and `clips` are refused: a photo is one row. */
export interface PhotoBatchOptions extends SourceOptions, PhotoOptions {
  /**
   * Photos per batch, an integer from 1 to 4096. Photos that cannot be read leave their batch smaller.
   * @default 32
   */
  readonly batch: number;
  /**
   * Threads that decode photos, an integer from 0 to 1024; 0 uses all cores.
   * @default 0
   */
  readonly decodeThreads: number;
}

const ONE_ROW =
  'a photo is one row here; make a folder of photos of them, or where a call takes tensors, give those of loadTiles or loadClip';

export const PHOTO_BATCH_FIELDS: Fields<PhotoBatchOptions> = {
  ...SOURCE_FIELDS,
  ...photoFields({ tiles: ONE_ROW, clips: ONE_ROW }),
  batch: integer(1, 4096, 32, 'photos per batch'),
  decodeThreads: integer(0, 1024, 0, 'threads that decode photos; 0 for all cores'),
};

/** A photo that could not be read. */
export interface PhotoFailure {
  /** The path as the source has it; null for bytes and streams. */
  readonly path: string | null;
  readonly error: ImageError;
}
