/** Every message between decoding threads and their owner, and nothing else. */
import type { PackedError } from '../../../base/packed-error.js';
import type { FileStamp } from '../../../base/file-stamp.js';
import type { PageRange } from '../decode/decode-pages.js';
import type { DecoderVersions } from '../decode/open-sharp.js';
import type { Reduction } from '../decode/reduction.js';
import type { Deviation } from '../transform/deviation.js';
import type { Marks } from '../formats/marks.js';
import type { RgbImage } from '../pixels/rgb-image.js';
import type { Tile } from '../pixels/tile-grid.js';
import type { TilePlan } from '../transform/tile-options.js';
import type { Checksum, ImageFile } from '../file/image-file.js';
import type { TransformOptions } from '../transform/transform-options.js';

/** What a thread gets when it starts. */
export interface DecodeThreadData {
  readonly transform: TransformOptions;
  readonly checksum: Checksum;
  /** Not 0 once the thread must not begin another image. */
  readonly stop: Int32Array;
  /** For `joinSharpState`. */
  readonly sharpState: Int32Array;
}

/** Owner → thread; a message holds several, a run. */
export interface DecodeRequest {
  readonly id: number;
  readonly source: ImageFile;
  /** Whether its stamp is all that is asked for. */
  readonly isStamp: boolean;
  /** Receives the pixels: `height × width × 3` bytes of the transform's size, in shared memory. Undefined if the photo decides the size. */
  readonly into: Uint8Array | undefined;
  /** Whether to compare the pixels of a fast mode with the exact ones. */
  readonly isMeasured: boolean;
  /** For `loadPixels`. */
  readonly augmentSeed: number | undefined;
  /** Pages to decode in place of the image; `into` receives one after the other. */
  readonly pages: PageRange | undefined;
}

/** Owner → thread: the tiles of a picture from one on, a few. */
export interface TileRequest {
  readonly id: number;
  /** The number of the picture, which stays open until a message closes it. */
  readonly picture: number;
  /** With the first request to a thread. */
  readonly open?: { readonly source: ImageFile; readonly plan: TilePlan };
  readonly first: number;
  /** Receives the transformed tiles that are kept, one after the other, in shared memory. */
  readonly into: Uint8Array;
}

/** Owner → thread: the picture is not needed any more. */
export interface CloseRequest {
  readonly close: number;
}

/** Tiles of a picture, before the transform. */
export interface LoadedTiles {
  /** Of the picture. */
  readonly width: number;
  readonly height: number;
  readonly marks: Marks;
  /** Whether several threads can read the picture. */
  readonly isRandom: boolean;
  /** The tiles that are kept, in the order in which they lie in memory. */
  readonly tiles: readonly { readonly index: number; readonly tile: Tile }[];
  readonly stamp: FileStamp;
}

/** A decoded image, before the transform. */
export interface DecodedSize {
  readonly width: number;
  readonly height: number;
  /** By how much `decode: 'fast'` reduced it. */
  readonly reduction: Reduction;
  readonly marks: Marks;
  /** Present if the image was reduced and the request asked to measure it. */
  readonly deviation?: Deviation;
  /** Stamp of the file when it was read. */
  readonly stamp: FileStamp;
  /** The transformed photo in shared memory, if the request gave no place for it: pixels, or the bytes of normalised planes. */
  readonly result?: RgbImage;
}

/** A file that was read and not decoded. */
export type StampedOnly = Pick<DecodedSize, 'stamp'>;

/** Milliseconds that an image took. */
export interface DecodeSpent {
  /** Reading and decoding. */
  readonly decodeMs: number;
  /** Resizing and cropping. */
  readonly resampleMs: number;
}

/** Thread → owner; a message holds those of a run. Images that the thread did not begin get no reply. */
export type DecodeReply =
  | ({
      readonly id: number;
      readonly error?: undefined;
      /** What the thread decodes with, if it has loaded it. */
      readonly decoder: DecoderVersions | undefined;
    } & (DecodedSize | LoadedTiles | StampedOnly) &
      DecodeSpent)
  | {
      readonly id: number;
      readonly error: PackedError;
      /** Undefined if the file could not be opened. */
      readonly stamp: FileStamp | undefined;
    };
