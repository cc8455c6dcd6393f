/** What a run hands to the dataset: batches of inputs that were tried, and the features of those that succeeded. */
import type { ImageErrorCode, TapirError } from '../../base/errors.js';
import type { FileStamp } from '../../base/file-stamp.js';
import type { Tensor } from '../../tensor/tensor.js';

/** An input that was read, or the reason why it could not be read. */
export interface TriedInput {
  readonly path: string | null;
  /** Size of the image in pixels; null if it could not be read. */
  readonly width: number | null;
  readonly height: number | null;
  /** By how much the decoder reduced each side; 1 if it did not. */
  readonly reduction: number;
  /** By how much its 8-bit values differ from the exact ones, if that was measured. */
  readonly deviation?: { readonly mean: number; readonly max: number };
  /** The stamp of its file when it was read; null if unknown. */
  readonly stamp: FileStamp | null;
  readonly error: TapirError<ImageErrorCode> | null;
}

/** The inputs of a batch in order, and the features of those without an error. */
export interface TriedBatch {
  readonly items: readonly TriedInput[];
  /** By output key. The first axis is the inputs without an error, in order. Empty if all failed. */
  readonly features: Readonly<Record<string, Tensor>>;
}
