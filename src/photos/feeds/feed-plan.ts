/** How photos feed a model: what a plan says, and what memory and runs do with it. */
import type { Feed } from '../../onnx/tensor/image-feed.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import type { CropRows } from '../images/pixels/crops.js';
import type { Size } from '../images/pixels/geometry.js';
import type { ClipPlan } from '../images/transform/clip-options.js';
import type { TilePlan } from '../images/transform/tile-options.js';
import type { Transform } from '../images/transform/transform.js';

/** Photos of unlike shape are sorted by it within a window of so many batches, so that little is padded. */
export const WINDOW_BATCHES = 8;

/** What a decoding thread left of a photo: bytes of pixels, or those of normalised planes, in a SharedArrayBuffer. */
export interface HeldPhoto {
  readonly height: number;
  readonly width: number;
  readonly data: Uint8Array;
}

/** Turns a photo into tensors. A decoding thread runs it; the options of its transform are all that it needs there. */
export interface Processor {
  readonly transform: Transform;
  /** What a photo gives, with a name for a size that the photo decides. */
  readonly tensors: readonly TensorInfo[];
  /** Bytes that a decoding thread leaves of a photo, pixels or normalised planes; null if the photo decides their number. */
  readonly bytes: number | null;
  /** Height and width of what is left; null if the photo decides them. */
  readonly size: Size | null;
  /** Rows of a photo, or of a tile of a picture. */
  readonly rows: number;
  /** Whether they become one after a run: their mean. */
  readonly joins: boolean;
  /** How pictures are cut into tiles, as many as each has; undefined for whole photos. */
  readonly tiles: TilePlan | undefined;
  /** How frames make clips; undefined for photos. A clip is held as one picture, its frames below each other. */
  readonly clips: ClipPlan | undefined;
}

/** What decides on the rows of a photo. */
export interface RowChoice {
  /** What becomes of several crops of a photo after the run. */
  readonly cropRows?: CropRows;
  readonly tiles?: TilePlan | undefined;
  readonly clips?: ClipPlan | undefined;
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
