/** The input and the options of `run`. */
import type { Options } from '../../base/checks.js';
import { boolean, readOptions, signal, type Fields } from '../../base/options.js';
import type { RgbImage } from '../../photos/images/pixels/rgb-image.js';
import type { Tensor, TensorLike } from '../../onnx/tensor/tensor.js';

/**
 * What `run` accepts: a tensor for the only input, a photo from {@link loadImage}, pixels that {@link Transform.apply} gave, or the tensors of photos ({@link collateImages}), or tensors by input name. Records may be nested; lists
 * give inputs in the model's order; empty ones are passed over. Tensors of photos are matched to the inputs by name, and converted to their
 * element types: integers exactly, to bool what is not 0, float32 to float16 rounded.
 */
export type RunInput = TensorLike | LoadedPhoto | RgbImage | NestedFeeds;

/** A photo that gives its tensor, or its tensors by name. */
export interface LoadedPhoto {
  toTensor(): TensorLike;
  toTensors?(): Readonly<Record<string, Tensor>>;
}

/** Tensors by input name, or in order. */
export type NestedFeeds =
  { readonly [name: string]: TensorLike | NestedFeeds } | readonly (TensorLike | NestedFeeds)[];

/** Options of {@link FeatureExtractor.run}. */
export interface RunOptions {
  /**
   * Rejects the call at once when it fires. The session stays busy until the run in flight returns: onnxruntime-node cannot
   * cancel it.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Move the feeds' buffers to the session's thread instead of copying them; the caller's arrays are empty afterwards. Feeds
   * that are split over several runs are copied all the same.
   * @default false
   */
  readonly transfer: boolean;
}

export const RUN_FIELDS: Fields<RunOptions> = { signal, transfer: boolean(false) };

/** Reads run options. Throws `OPTION_INVALID`. */
export function readRunOptions(given: Options<RunOptions>): RunOptions {
  return readOptions(RUN_FIELDS, given, 'run');
}
