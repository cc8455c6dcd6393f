/** How photos feed a model: what a plan says, and what memory and runs do with it. */
import type { Feed } from '../../onnx/tensor/image-feed.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import type { Processor } from './processor.js';

/** Photos of unlike shape are sorted by it within a window of so many batches, so that little is padded. */
export const WINDOW_BATCHES = 8;

/** What a decoding thread left of a photo: bytes of pixels, or those of normalised planes, in a SharedArrayBuffer. */
export interface HeldPhoto {
  readonly height: number;
  readonly width: number;
  readonly data: Uint8Array;
}

/** How the tensors of a processor feed a model. Made by `planFeeds`. */
export interface FeedPlan {
  readonly processor: Processor;
  /** The inputs that photos feed, that of the pixels first. */
  readonly inputs: readonly string[];
  /** The number of rows that the graph was exported for: runs are padded to a multiple of it. Null if it takes any number. */
  readonly multiple: number | null;
  /** Whether the graph takes bytes and normalises them. */
  readonly takesPixels: boolean;
  /** Whether the channels come last in the feed. */
  readonly isLast: boolean;
  /** Whether a photo's own tensor is a feed as it is. */
  readonly isPlain: boolean;
  /** What users should know: tensors that no input takes. */
  readonly notes: readonly string[];
  /** For photos that decide sizes of the feeds; null if all feed the same. */
  readonly unlike: UnlikePhotos | null;

  /** The feeds of photos, at least one, with `rows` rows; those after the photos are padding. */
  feedsOf(photos: readonly HeldPhoto[], rows: number): readonly Feed[];
}

/** Photos that decide the sizes of their feeds. */
export interface UnlikePhotos {
  /** Whether photos of unlike shape can run together, padded or one after the other. */
  readonly canMix: boolean;
  /** Whether each output must have a row per photo. */
  readonly hasRows: boolean;
  /** Orders photos: those next to each other have similar shapes; those of one shape are equal. */
  shapeOf(photo: HeldPhoto): number;
  /** What a photo has of an output, without the batch axis; undefined if that cannot be told. */
  partOf(output: TensorInfo, tensor: Tensor, photos: readonly HeldPhoto[], index: number): Tensor | undefined;
  /** A black photo. */
  blank(): HeldPhoto;
}
