/** Every message between decoding threads and their owner, and nothing else. */
import type { PackedError } from '../../base/errors.js';
import type { DecoderVersions } from '../decode/decode.js';
import type { Deviation } from '../deviation.js';
import type { FileStamp } from '../../base/file-stamp.js';
import type { TransformOptions } from '../presets.js';
import type { Reduction } from '../decode/reduction.js';

/** What a thread is started with. */
export interface DecodeThreadData {
  readonly transform: TransformOptions;
  /** Whether to hash the content of each file. */
  readonly checksum: boolean;
  /** Not 0 once no further image shall be begun. */
  readonly stop: Int32Array;
}

/** Owner → thread, several in a message: a run. */
export interface DecodeRequest {
  readonly id: number;
  /** A path, or the bytes of a file. */
  readonly source: string | Uint8Array;
  /** Takes the pixels, `height × width × 3` bytes of the transform's size; over shared memory. */
  readonly into: Uint8Array;
  /** Compare what a fast mode makes of it with the exact pixels. */
  readonly isMeasured: boolean;
}

/** An image as it was before the transform. */
export interface DecodedSize {
  readonly width: number;
  readonly height: number;
  /** How far `decode: 'fast'` has reduced it. */
  readonly reduction: Reduction;
  /** Of an image that was reduced, if it was to be measured. */
  readonly deviation?: Deviation;
  /** Of the file as it was read. */
  readonly stamp: FileStamp;
}

/** Milliseconds that an image has taken. */
export interface DecodeSpent {
  /** Reading and decoding. */
  readonly decodeMs: number;
  /** Resizing and cropping. */
  readonly resampleMs: number;
}

/** Thread → owner, those of a run in a message; images that were not begun are left out. */
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
      /** Of a file that could be opened. */
      readonly stamp: FileStamp | undefined;
    };
