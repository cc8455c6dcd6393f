/** The step before the resize, which few models have. */
import { tooLargeImage } from '../file/image-errors.js';
import { cropOf, resizedSize, type Size } from '../pixels/geometry.js';
import { cutRegion, type RgbImage } from '../pixels/rgb-image.js';
import type { Sampling } from '../resample/kernel.js';
import { resample } from '../resample/resample.js';
import type { TransformOptions } from './transform-options.js';

/** The size of an image after the first step. */
export function sizeOfFirst(image: Size, { first }: Pick<TransformOptions, 'first'>): Size {
  if (first === null) return image;
  if (!('crop' in first)) return resizedSize(image, first.resize);
  const side = Math.min(image.height, image.width);
  const sideOf = (share: number): number => Math.max(1, Math.trunc(share * side));
  return { height: sideOf(first.crop.height), width: sideOf(first.crop.width) };
}

/** The image after the first step; without one, the image itself. */
export function takeFirst(
  image: RgbImage & { readonly source?: Size },
  { first, cropOffset, interpolation, antialias, resampler, limitPixels }: TransformOptions,
): RgbImage & { readonly source?: Size } {
  if (first === null) return image;
  const size = sizeOfFirst(image, { first });
  if ('crop' in first) return cutRegion(image, cropOf(image, size, cropOffset));
  if (size.height * size.width > limitPixels) throw tooLargeImage('the resized image', limitPixels);
  const whose = resampler === 'torch-float' ? 'pillow' : resampler;
  const sampling: Sampling = { interpolation, antialias, resampler: whose };
  return resample(image, size, { top: 0, left: 0, ...size }, sampling);
}
