/**
 * Pillow's 8-bit resampling, bit for bit: separable, horizontal pass first, fixed-point weights of 22 bits, rounded to
 * 8 bits between the passes. Algorithm: Pillow, src/libImaging/Resample.c (MIT-CMU licence).
 */
import { invalidOption } from '../../base/checks.js';
import type { Region, Size } from '../pixels/geometry.js';
import type { Interpolation } from './kernel.js';
import { resampleInJs } from './resample-js.js';
import { planResample } from './resample-plan.js';
import { resampleInSimd } from './resample-simd.js';
import type { RgbImage } from '../pixels/rgb-image.js';
import { sharedSimdModule, type SimdModule } from '../simd/simd-module.js';

/**
 * Resizes an image and cuts a region out of the result; only the pixels of that region are computed.
 *
 * @param image - 8-bit RGB; read only.
 * @param size - Size of the whole resized image.
 * @param region - What to cut out; beyond the image, pixels are 0.
 * @param into - Takes the pixels instead of a new array: exactly `height × width × 3` bytes of the region. It may lie in
 * shared memory, not in the image's.
 * @returns An image of the region's size, in `into` or in an array of its own.
 */
export type Resample = (
  image: RgbImage,
  size: Size,
  region: Region,
  interpolation: Interpolation,
  into?: Uint8Array,
) => RgbImage;

/**
 * Creates a resampling; all but tests use {@link resample}.
 *
 * @param startSimd - The module to use, asked for at the first image that is resized; null leaves everything to JavaScript.
 */
export function createResample(startSimd: () => SimdModule | null): Resample {
  return (image, size, region, interpolation, into) => {
    const plan = planResample(image, size, region, interpolation);
    const data = takeRegion(region, plan, into);
    const simd = plan.rows || plan.columns ? startSimd() : null;
    if (!simd || !resampleInSimd(simd, image, plan, data)) resampleInJs(image, plan, data);
    return { height: region.height, width: region.width, data };
  };
}

/** {@link Resample} on WebAssembly SIMD where it works, in JavaScript otherwise: the same pixels. One instance per thread. */
export const resample: Resample = createResample(sharedSimdModule);

/** The bytes of a region: `into` where it is given, 0 where a plan has no pixels. */
export function takeRegion({ height, width }: Region, plan: Size, into?: Uint8Array): Uint8Array {
  const bytes = height * width * 3;
  if (!into) return new Uint8Array(bytes);
  if (into.length !== bytes)
    throw invalidOption('into', `${height} × ${width} × 3 bytes`, `${into.length} bytes`);
  if (plan.height < height || plan.width < width) into.fill(0);
  return into;
}
