/** Preprocessing: its options, and their values by name. */
import { IMAGENET_MEAN, IMAGENET_STD } from '../base/imagenet.js';
import type { Size } from './pixels/geometry.js';
import type { Interpolation } from './resample/resample.js';

/** How pixels are decoded: as torchvision does, or large ones reduced. */
export const DECODE_MODES = ['exact', 'fast'] as const;
export type DecodeMode = (typeof DECODE_MODES)[number];

/** Preprocessing in full. */
export interface TransformOptions {
  /**
   * Resize the shorter side to this many pixels, keeping the aspect ratio, or both sides to a size; null leaves the size.
   * @default 256
   */
  readonly resize: number | Size | null;
  /**
   * Cut this much out of the middle, padded with zeros where the image is smaller; a number means a square, null all.
   * @default 224
   */
  readonly crop: number | Size | null;
  /**
   * Interpolation of the resize; always antialiased, as Pillow does.
   * @default 'bilinear'
   */
  readonly interpolation: Interpolation;
  /**
   * Subtracted per channel (red, green, blue) from values of 0 to 1.
   * @default [0.485, 0.456, 0.406]
   */
  readonly mean: readonly [number, number, number];
  /**
   * Divided by per channel after that; not 0.
   * @default [0.229, 0.224, 0.225]
   */
  readonly std: readonly [number, number, number];
  /**
   * `ignore` reads pixels as stored, as torchvision does; `exif` turns the image upright first.
   * @default 'ignore'
   */
  readonly orientation: 'ignore' | 'exif';
  /**
   * `exact` decodes as torchvision does. `fast` lets the decoder reduce JPEGs to 1/2, 1/4 or 1/8 (as Pillow's `draft` does), and
   * opaque WebPs, the most that leaves twice the size that `resize` asks for, and resizes that: about half the time at 3
   * megapixels and a third at 12, and pixels that are off by 0.2 to 1.3 of 255 levels in the mean (`measureDeviation` tells). Other
   * images, and smaller ones, are decoded exactly. Bytes are put into a temporary file for it: the decoder reduces only files.
   * @default 'exact'
   */
  readonly decode: DecodeMode;
  /**
   * Images of more pixels are refused (`IMAGE_TOO_LARGE`), from their header alone; an integer from 1 to 2^31 − 1.
   * @default 178956970
   */
  readonly limitPixels: number;
}

/** torchvision's `IMAGENET1K_V1` and `_V2` weights' transforms, CLIP's and ViT's interpolation, and a plain squash. */
export type TransformPreset = 'ImageNet1K_V1' | 'ImageNet1K_V2' | 'Bicubic256' | 'Squash224';

const IMAGENET = {
  mean: IMAGENET_MEAN,
  std: IMAGENET_STD,
  orientation: 'ignore',
  decode: 'exact',
  // Pillow's limit for an error (twice its limit for a warning).
  limitPixels: 178_956_970,
} as const;
const CROP = { height: 224, width: 224 };

export const TRANSFORM_PRESETS: Readonly<Record<TransformPreset, TransformOptions>> = {
  ImageNet1K_V1: { ...IMAGENET, resize: 256, crop: CROP, interpolation: 'bilinear' },
  ImageNet1K_V2: { ...IMAGENET, resize: 232, crop: CROP, interpolation: 'bilinear' },
  Bicubic256: { ...IMAGENET, resize: 256, crop: CROP, interpolation: 'bicubic' },
  Squash224: { ...IMAGENET, resize: CROP, crop: null, interpolation: 'bilinear' },
};
