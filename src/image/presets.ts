/** Preprocessing by name. */
import type { TransformOptions } from './transform.js';

/** torchvision's `IMAGENET1K_V1` and `_V2` weights' transforms, CLIP's and ViT's interpolation, and a plain squash. */
export type TransformPreset = 'ImageNet1K_V1' | 'ImageNet1K_V2' | 'Bicubic256' | 'Squash224';

const IMAGENET = {
  mean: [0.485, 0.456, 0.406],
  std: [0.229, 0.224, 0.225],
  orientation: 'ignore',
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
