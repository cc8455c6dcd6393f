/** Every message between decoding threads and their owner, and nothing else. */
import type { PackedError } from '../../base/errors.js';
import type { FileStamp } from '../../base/file-stamp.js';
import type { DecoderVersions } from '../decode/open-sharp.js';
import type { Reduction } from '../decode/reduction.js';
import type { Deviation } from '../transform/deviation.js';
import type { ImageFile } from '../file/image-file.js';
import type { TransformOptions } from '../transform/transform-options.js';

/** What a thread gets when it starts. */
export interface DecodeThreadData {
  readonly transform: TransformOptions;
  /** Whether to hash the content of each file. */
  readonly checksum: boolean;
  /** Not 0 once the thread must not begin another image. */
  readonly stop: Int32Array;
  /** For `joinSharpState`. */
  readonly sharpState: Int32Array;
}

/** Owner → thread; a message holds several, a run. */
export interface DecodeRequest {
  readonly id: number;
  readonly source: ImageFile;
  /** Receives the pixels: `height × width × 3` bytes of the transform's size, in shared memory. */
  readonly into: Uint8Array;
  /** Whether to compare the pixels of a fast mode with the exact ones. */
  readonly isMeasured: boolean;
  /** For `loadPixels`. */
  readonly augmentSeed: number | undefined;
}

/** A decoded image, before the transform. */
export interface DecodedSize {
  readonly width: number;
  readonly height: number;
  /** By how much `decode: 'fast'` reduced it. */
  readonly reduction: Reduction;
  /** Present if the image was reduced and the request asked to measure it. */
  readonly deviation?: Deviation;
  /** Stamp of the file when it was read. */
  readonly stamp: FileStamp;
}

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
    } & DecodedSize &
      DecodeSpent)
  | {
      readonly id: number;
      readonly error: PackedError;
      /** Undefined if the file could not be opened. */
      readonly stamp: FileStamp | undefined;
    };
