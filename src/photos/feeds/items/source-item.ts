/** One image of a source. */
import type { ImageErrorCode, TapirError } from '../../../base/errors.js';
import type { FileStamp } from '../../../base/file-stamp.js';

/** What a source says about an image beside its path: for each column a text of JSON, as it was written. */
export type ItemColumns = ReadonlyMap<string, string>;

/** The frames of a video that make one row. */
export interface ItemClip {
  /** The first of them, among those of its folder or file, from 0. */
  readonly start: number;
  /** Their files; undefined where they are pages of the item's own file. */
  readonly files?: readonly SourceItem[];
}

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
  /** The row, from 0, of the table or stream that holds the image itself. Rows are different images, even if they have one name. */
  readonly heldIn?: number;
  /** Chooses the random crop and flip of an image that is trained on. */
  readonly augmentSeed?: number;
  /** Left out if the source says nothing else. */
  readonly columns?: ItemColumns | undefined;
  /** Of a clip: its frames, which are read in place of the image. The path is that of their folder or file. */
  readonly clip?: ItemClip;
  /** The tile of the picture to begin with: what embeds it has those before. Left out for the first. */
  readonly firstTile?: number;
  /** Of what is fetched: its address, with all that it needs. */
  readonly url?: string;
  /** Why the image cannot be read. Such an image is never opened. */
  readonly error?: TapirError<ImageErrorCode>;
}

/** The file of an image: its path or its bytes, which may have to be fetched first. */
export async function fileOf({ image }: Pick<SourceItem, 'image'>): Promise<string | Uint8Array> {
  return typeof image === 'function' ? image() : image;
}

/** The images of a source, in order. */
export type SourceItems = AsyncIterable<SourceItem> | Iterable<SourceItem>;
