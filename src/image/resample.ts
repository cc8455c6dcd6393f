/**
 * Pillow's 8-bit resampling, bit for bit: separable, horizontal pass first, fixed-point weights of 22 bits, rounded to
 * 8 bits between the passes. Algorithm: Pillow, src/libImaging/Resample.c (MIT-CMU licence).
 */
import { invalidOption } from '../checks.js';
import type { Region, Size } from './geometry.js';
import type { Interpolation } from './kernel.js';
import { resampleInJs } from './resample-js.js';
import { planResample } from './resample-plan.js';
import { resampleInSimd } from './resample-simd.js';
import type { RgbImage } from './rgb-image.js';
import { sharedSimdModule, type SimdModule } from './simd-module.js';

export type { Interpolation } from './kernel.js';
export type { RgbImage } from './rgb-image.js';

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
    const { height, width } = region;
    const data = into ?? new Uint8Array(height * width * 3);
    if (data.length !== height * width * 3) {
      throw invalidOption('into', `${height} × ${width} × 3 bytes`, `${data.length} bytes`);
    }
    const plan = planResample(image, size, region, interpolation);
    if (into && (plan.height < height || plan.width < width)) into.fill(0);
    const simd = plan.rows || plan.columns ? startSimd() : null;
    if (!simd || !resampleInSimd(simd, image, plan, data)) resampleInJs(image, plan, data);
    return { height, width, data };
  };
}

/** {@link Resample} on WebAssembly SIMD where it works, in JavaScript otherwise: the same pixels. One instance per thread. */
export const resample: Resample = createResample(sharedSimdModule);
