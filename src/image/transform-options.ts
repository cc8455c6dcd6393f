/** The options of a transform, and their values by preset name. */
import { IMAGENET_MEAN, IMAGENET_STD } from '../base/imagenet.js';
import type { DecodeOptions } from './decode/decode-options.js';
import type { Size } from './pixels/geometry.js';
import type { Interpolation } from './resample/kernel.js';

/** Every option of a transform. */
export interface TransformOptions extends DecodeOptions {
  /**
   * A number resizes the shorter side to this many pixels and keeps the aspect ratio; a size sets both sides; null keeps the
   * image's size.
   * @default 256
   */
  readonly resize: number | Size | null;
  /**
   * Size of the region to cut from the centre; a number means a square, null keeps everything. A smaller image is padded with
   * zeros.
   * @default 224
   */
  readonly crop: number | Size | null;
  /**
   * Interpolation of the resize; always antialiased, as in Pillow.
   * @default 'bilinear'
   */
  readonly interpolation: Interpolation;
  /**
   * Mean per channel (red, green, blue), subtracted from values of 0 to 1.
   * @default [0.485, 0.456, 0.406]
   */
  readonly mean: readonly [number, number, number];
  /**
   * Standard deviation per channel, the divisor after the mean is subtracted; not 0.
   * @default [0.229, 0.224, 0.225]
   */
  readonly std: readonly [number, number, number];
}

/**
 * Transforms by name: those of torchvision's `IMAGENET1K_V1` and `IMAGENET1K_V2` weights, bicubic interpolation as for CLIP and
 * ViT, and a plain resize of both sides.
 */
export type TransformPreset = 'ImageNet1K_V1' | 'ImageNet1K_V2' | 'Bicubic256' | 'Squash224';

const IMAGENET = {
  mean: IMAGENET_MEAN,
  std: IMAGENET_STD,
  orientation: 'ignore',
  decode: 'exact',
  // Pillow raises an error beyond this limit, which is twice the one for its warning.
  limitPixels: 178_956_970,
} as const;
const CROP = { height: 224, width: 224 };

export const TRANSFORM_PRESETS: Readonly<Record<TransformPreset, TransformOptions>> = {
  ImageNet1K_V1: { ...IMAGENET, resize: 256, crop: CROP, interpolation: 'bilinear' },
  ImageNet1K_V2: { ...IMAGENET, resize: 232, crop: CROP, interpolation: 'bilinear' },
  Bicubic256: { ...IMAGENET, resize: 256, crop: CROP, interpolation: 'bicubic' },
  Squash224: { ...IMAGENET, resize: CROP, crop: null, interpolation: 'bilinear' },
};
