/** The sizes of resized images and the places of crops, as each library computes them. Arithmetic only. */
import { roundHalfEven } from '../../base/round-half-even.js';

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

/** Keeps the aspect ratio: `inside` the size (timm's border, OpenCLIP's longest), or around it (`outside`, timm's center). */
export interface RatioFit extends Size {
  readonly fit: 'inside' | 'outside';
}

/**
 * What to resize an image to. A number is the shorter side, with the longer one truncated; a size sets both sides; null keeps the
 * image's size.
 */
export type ResizeTarget = number | Size | EdgeLimits | RatioFit | null;

/** Whether a target sets both sides, whatever the image. */
export function isFixedSize(target: ResizeTarget): target is Size {
  return typeof target === 'object' && target !== null && 'height' in target && !('fit' in target);
}

export function resizedSize(image: Size, target: ResizeTarget): Size {
  if (target === null) return { height: image.height, width: image.width };
  if (typeof target === 'number') return withShortSide(image, target, target);
  if ('shortest' in target) return withinEdges(image, target);
  return 'fit' in target ? keepRatio(image, target) : target;
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

/** timm's and OpenCLIP's `ResizeKeepRatio`. */
function keepRatio({ height, width }: Size, { fit, ...target }: RatioFit): Size {
  const ratios = [height / target.height, width / target.width];
  const ratio = fit === 'inside' ? Math.max(...ratios) : Math.min(...ratios);
  const sideOf = (side: number): number => Math.max(1, roundHalfEven(side / ratio));
  return { height: sideOf(height), width: sideOf(width) };
}

/**
 * How half the difference between an image and its crop becomes whole pixels: `round` rounds half to even (torchvision, timm,
 * OpenCLIP), `trunc` and `floor` are transformers' torchvision and Pillow backends. `floor` and `trunc` differ where the image is
 * smaller than the crop.
 */
export type CropOffset = 'round' | 'trunc' | 'floor';

/** The region in the centre of an image of a size. An image that is too small gets padding: with `round`, as torchvision pads. */
export function centerCrop(size: Size, crop: Size | null, offset: CropOffset = 'round'): Region {
  if (crop === null) return { top: 0, left: 0, ...size };
  const at = (side: number, cropped: number): number => {
    const half = (side - cropped) / 2;
    if (offset === 'floor') return Math.floor(half);
    return offset === 'trunc' || side < cropped ? Math.trunc(half) : roundHalfEven(half);
  };
  return { top: at(size.height, crop.height), left: at(size.width, crop.width), ...crop };
}
