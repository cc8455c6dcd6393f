/** One image of a source. */
import type { ImageErrorCode, TapirError } from '../../../base/errors.js';
import type { FileStamp } from '../../../base/file-stamp.js';

/** An image to embed. */
export interface SourceItem {
  /** The name of the image in the dataset: relative to the folder, with `/`. Null for bytes. */
  readonly path: string | null;
  /** The path of a file, the bytes of a file, or a function that fetches the bytes later (archive entries, URLs). */
  readonly image: string | Uint8Array | (() => Promise<Uint8Array>);
  /**
   * Set if the source knows it: an archive entry has it from the start, a URL after it was fetched. The stamp of a file is
   * taken when the file is read.
   */
  readonly stamp?: FileStamp;
  /** The source has seen the file. If the file is missing later, it has vanished (`IMAGE_VANISHED`). */
  readonly listed?: true;
  /** Chooses the random crop and flip of an image that is trained on. */
  readonly augmentSeed?: number;
  /** Why the image cannot be read. Such an image is never opened. */
  readonly error?: TapirError<ImageErrorCode>;
}

/** The images of a source, in order. */
export type SourceItems = AsyncIterable<SourceItem> | Iterable<SourceItem>;
