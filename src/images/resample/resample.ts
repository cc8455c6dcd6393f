/**
 * Pillow's 8-bit resampling, bit for bit: two passes, the horizontal one first, with weights of 22 fractional bits, rounded to
 * 8 bits after each pass. Algorithm: Pillow, src/libImaging/Resample.c (MIT-CMU licence).
 */
import { invalidOption } from '../../base/checks.js';
import type { Region, Size } from '../pixels/geometry.js';
import type { Sampling } from './kernel.js';
import { resampleInJs } from './resample-js.js';
import { planResample } from './resample-plan.js';
import { resampleInSimd } from './resample-simd.js';
import { transpose, turned, type RgbImage } from '../pixels/rgb-image.js';
import { sharedSimdModule, type SimdModule } from '../simd/simd-module.js';

/**
 * Resizes an image and cuts a region from the result; computes only the pixels of that region.
 *
 * @param image - 8-bit RGB; it is not changed.
 * @param region - The region to cut out; pixels beyond the image have the colour `fill`.
 * @param into - Receives the pixels: exactly `height × width × 3` bytes of the region, by default a new array. It may be in
 * shared memory, but must not overlap the image.
 */
export type Resample = (
  image: RgbImage,
  size: Size,
  region: Region,
  sampling: Sampling,
  into?: Uint8Array,
  fill?: Colour,
) => RgbImage;

/**
 * Creates a resampling; except for tests, use {@link resample}.
 *
 * @param startSimd - Starts the module to use, when the first image is resized; null means JavaScript.
 */
export function createResample(startSimd: () => SimdModule | null): Resample {
  const resize: Resample = (image, size, region, sampling, into, fill) => {
    const plan = planResample(image, size, region, sampling);
    const data = takeRegion(region, plan, into, fill);
    const simd = plan.rows || plan.columns ? startSimd() : null;
    if (!simd || !resampleInSimd(simd, image, plan, data)) resampleInJs(image, plan, data);
    return { height: region.height, width: region.width, data };
  };
  return (image, size, region, sampling, into, fill) => {
    if (!takesRowsFirst(image, size, sampling)) return resize(image, size, region, sampling, into, fill);
    const across = { ...turned(region), left: region.top, top: region.left };
    const result = resize(transpose(image), turned(size), across, sampling, undefined, fill);
    return transpose(result, takeBytes(region, into));
  };
}

/** Whether Pillow 13 takes the vertical pass first: the image loses rows, and more than twice as many as columns. */
export function takesRowsFirst(image: Size, size: Size, { resampler, interpolation }: Sampling): boolean {
  const rows = image.height - size.height;
  const isLarge = rows > 0 && rows > 2 * (image.width - size.width);
  return isLarge && resampler === 'pillow-13' && interpolation !== 'nearest';
}

/** {@link Resample} on WebAssembly SIMD where it is available, else in JavaScript, with the same pixels. One instance per thread. */
export const resample: Resample = createResample(sharedSimdModule);

/** Red, green and blue, 0 to 255. */
export type Colour = readonly [number, number, number];

/** The bytes of a region: `into` or a new array. */
function takeBytes({ height, width }: Size, into: Uint8Array | undefined): Uint8Array {
  const bytes = height * width * 3;
  if (into && into.length !== bytes)
    throw invalidOption('into', `${height} × ${width} × 3 bytes`, `${into.length} bytes`);
  return into ?? new Uint8Array(bytes);
}

/** The bytes of a region, with the colour `fill` (black by default) where a plan has no pixels. */
export function takeRegion(
  { height, width }: Region,
  plan: Size,
  into: Uint8Array | undefined,
  fill: Colour = [0, 0, 0],
): Uint8Array {
  const data = takeBytes({ height, width }, into);
  if (plan.height < height || plan.width < width) fillWith(data, fill);
  return data;
}

function fillWith(data: Uint8Array, [red, green, blue]: Colour): void {
  if (red === green && green === blue) data.fill(red);
  else for (let at = 0; at < data.length; at += 3) data.set([red, green, blue], at);
}
