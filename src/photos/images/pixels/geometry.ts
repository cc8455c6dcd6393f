/** The sizes of resized images and the places of crops, as each library computes them. Arithmetic only. */
import { roundHalfEven } from '../../../base/round-half-even.js';

/** Height and width in pixels. */
export interface Size {
  readonly height: number;
  readonly width: number;
}

/** A region of a resized image. It may reach beyond the image on any side, where a crop is padded. */
export interface Region extends Size {
  readonly top: number;
  readonly left: number;
}

/** Keeps the aspect ratio: the shorter side, unless the longer one would pass a limit. As Hugging Face's `shortest_edge` with `longest_edge`. */
export interface EdgeLimits {
  readonly shortest: number;
  readonly longest: number;
}

/** Keeps the aspect ratio: the longer side, with the other one rounded half up, as SAM does. */
export interface LongSide {
  readonly longest: number;
}

/**
 * Keeps the aspect ratio. `inside` stays in the size (timm's border, OpenCLIP's longest), `outside` covers it (timm's center). `thumbnail`
 * makes only larger images smaller, with a truncated side (Donut). `nearest` takes the side that changes the image less (Depth Anything).
 */
export interface RatioFit extends Size {
  readonly fit: 'inside' | 'outside' | 'thumbnail' | 'nearest';
  /** Both sides are rounded to multiples of it, half to even; only with `nearest`. @default 1 */
  readonly multiple?: number;
}

/**
 * Whole multiples of a patch: the stated side, rounded down to one, and the other side as it follows from the ratio, rounded down as well
 * (DINOv3's notebooks, with `height`). Without a side, both of the image's own, rounded down.
 */
export type MultipleSides =
  | { readonly height: number; readonly multiple: number }
  | { readonly shortest: number; readonly multiple: number }
  | { readonly longest: number; readonly multiple: number }
  | { readonly multiple: number };

/**
 * What to resize an image to. A number is the shorter side, with the longer one truncated; a size sets both sides; null keeps the
 * image's size.
 */
export type ResizeTarget = number | Size | EdgeLimits | LongSide | RatioFit | MultipleSides | null;

/** Whether a target sets both sides, whatever the image. */
export function isFixedSize(target: ResizeTarget): target is Size {
  return typeof target === 'object' && target !== null && 'width' in target && !('fit' in target);
}

/** Whether a target keeps the ratio in or around a size. */
export function isRatioFit(target: ResizeTarget): target is RatioFit {
  return typeof target === 'object' && target !== null && 'fit' in target;
}

/** The size of a resized image. A side may be 0 where no multiple fits. */
export function resizedSize(image: Size, target: ResizeTarget): Size {
  if (target === null) return { height: image.height, width: image.width };
  if (typeof target === 'number') return withShortSide(image, target, target);
  if ('fit' in target) return keepRatio(image, target);
  if ('multiple' in target) return wholeMultiples(image, target);
  if ('shortest' in target) return withinEdges(image, target);
  return 'longest' in target ? withLongSide(image, target) : target;
}

/** The shorter side, and the longer one truncated as by Python's int(). `exact` is the shorter side before it was rounded. */
function withShortSide({ height, width }: Size, short: number, exact: number): Size {
  const longOf = (long: number, by: number): number => Math.max(1, Math.trunc((exact * long) / by));
  return width <= height
    ? { height: longOf(height, width), width: short }
    : { height: short, width: longOf(width, height) };
}

/** transformers' `get_size_with_aspect_ratio`. */
function withinEdges({ height, width }: Size, { shortest, longest }: EdgeLimits): Size {
  const low = Math.min(height, width);
  const high = Math.max(height, width);
  const isLimited = (high / low) * shortest > longest;
  const exact = isLimited ? (longest * low) / high : shortest;
  const short = isLimited ? Math.max(1, roundHalfEven(exact)) : shortest;
  if (low === short) return { height, width };
  // A square takes the shorter side twice.
  return width === height
    ? { height: short, width: Math.max(1, Math.trunc(exact)) }
    : withShortSide({ height, width }, short, exact);
}

function wholeMultiples({ height, width }: Size, target: MultipleSides): Size {
  const { multiple } = target;
  const floor = (side: number): number => Math.floor(side / multiple) * multiple;
  if (!('height' in target || 'shortest' in target || 'longest' in target))
    return { height: floor(height), width: floor(width) };
  const isHeight = 'height' in target || ('shortest' in target ? height <= width : height >= width);
  const side = 'height' in target ? target.height : 'shortest' in target ? target.shortest : target.longest;
  const other = (long: number, by: number): number => Math.floor((long * side) / (by * multiple)) * multiple;
  return isHeight
    ? { height: floor(side), width: other(width, height) }
    : { height: other(height, width), width: floor(side) };
}

/** SAM's sizes. */
function withLongSide({ height, width }: Size, { longest }: LongSide): Size {
  const scale = longest / Math.max(height, width);
  const sideOf = (side: number): number => Math.max(1, Math.trunc(side * scale + 0.5));
  return { height: sideOf(height), width: sideOf(width) };
}

/** Donut's sizes: an image that is not larger keeps its own. */
function thumbnailSize(image: Size, target: Size): Size {
  const height = Math.min(image.height, target.height);
  const width = Math.min(image.width, target.width);
  if (image.height === image.width) return { height, width };
  return image.height > image.width
    ? { height, width: Math.max(1, Math.trunc((image.width * height) / image.height)) }
    : { height: Math.max(1, Math.trunc((image.height * width) / image.width)), width };
}

/** Depth Anything's sizes (transformers, image_processing_dpt.py, Apache-2.0). A side may be 0. */
function nearestSize(image: Size, { multiple = 1, ...target }: RatioFit): Size {
  const scales = [target.height / image.height, target.width / image.width] as const;
  const scale = Math.abs(1 - scales[1]) < Math.abs(1 - scales[0]) ? scales[1] : scales[0];
  const sideOf = (side: number): number => roundHalfEven((scale * side) / multiple) * multiple;
  return { height: sideOf(image.height), width: sideOf(image.width) };
}

/** timm's and OpenCLIP's `ResizeKeepRatio`, and others'. */
function keepRatio({ height, width }: Size, { fit, ...target }: RatioFit): Size {
  if (fit === 'thumbnail') return thumbnailSize({ height, width }, target);
  if (fit === 'nearest') return nearestSize({ height, width }, { fit, ...target });
  const ratios = [height / target.height, width / target.width];
  const ratio = fit === 'inside' ? Math.max(...ratios) : Math.min(...ratios);
  const sideOf = (side: number): number => Math.max(1, roundHalfEven(side / ratio));
  return { height: sideOf(height), width: sideOf(width) };
}

/**
 * How half the difference between an image and its crop becomes whole pixels. `round` rounds half to even (torchvision, timm, OpenCLIP).
 * `trunc` and `floor` are transformers' torchvision and Pillow backends. `ceil` is Donut. `floor` and `trunc` differ where the image is
 * smaller than the crop.
 */
export type CropOffset = (typeof CROP_OFFSETS)[number];
export const CROP_OFFSETS = ['round', 'trunc', 'floor', 'ceil'] as const;

/** Where a crop lies: `start` is the top left corner, so that a smaller image gets padding at the right and the bottom only. */
export type CropPlace = 'center' | 'start';

/** The region to cut from an image of a size. An image that is too small gets padding: with `round`, as torchvision pads. */
export function cropOf(
  size: Size,
  crop: Size | null,
  offset: CropOffset = 'round',
  place: CropPlace = 'center',
): Region {
  if (crop === null) return { top: 0, left: 0, ...size };
  if (place === 'start') return { top: 0, left: 0, ...crop };
  const at = (side: number, cropped: number): number => {
    const half = (side - cropped) / 2;
    if (offset === 'floor') return Math.floor(half);
    if (offset === 'ceil') return Math.ceil(half);
    return offset === 'trunc' || side < cropped ? Math.trunc(half) : roundHalfEven(half);
  };
  return { top: at(size.height, crop.height), left: at(size.width, crop.width), ...crop };
}
