/**
 * Pillow's 8-bit resampling, bit for bit: two passes, the horizontal one first, with weights of 22 fractional bits, rounded to
 * 8 bits after each pass. Algorithm: Pillow, src/libImaging/Resample.c (MIT-CMU licence).
 */
import { invalidOption } from '../../../base/checks.js';
import type { Region, Size } from '../pixels/geometry.js';
import type { Sampling } from './kernel.js';
import { resampleInJs } from './resample-js.js';
import { resampleBilinear } from './resample-bilinear.js';
import { ofPart, planResample, readRegion, visiblePart } from './resample-plan.js';
import { resampleInSimd } from './resample-simd.js';
import { copyRows, transpose, turned, type RgbImage } from '../pixels/rgb-image.js';
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
    if (isPlainBilinear(sampling)) {
      const data = takeRegion(region, visibleSize(size, region), into, fill);
      resampleBilinear(image, size, region, data);
      return { height: region.height, width: region.width, data };
    }
    if (!takesRowsFirst(image, size, sampling)) return resize(image, size, region, sampling, into, fill);
    const across = { ...turned(region), left: region.top, top: region.left };
    const result = resize(transpose(image), turned(size), across, sampling, undefined, fill);
    return transpose(result, takeBytes(region, into));
  };
}

/** Whether each pixel is mixed of the four about its place, however much smaller the image becomes. */
function isPlainBilinear({ antialias = true, interpolation }: Sampling): boolean {
  return !antialias && interpolation === 'bilinear';
}

function visibleSize(size: Size, region: Region): Size {
  const { left, top, right, bottom } = visiblePart(size, region);
  return { height: bottom - top, width: right - left };
}

/**
 * Whether Pillow takes the vertical pass first, of an image that loses rows. Version 13 does if these are more than twice as many as the
 * columns. Versions before do if the image is more than 100 times as high as wide.
 */
export function takesRowsFirst(image: Size, size: Size, { resampler, interpolation }: Sampling): boolean {
  const rows = image.height - size.height;
  if (rows <= 0 || interpolation === 'nearest') return false;
  if (resampler === 'pillow-13') return rows > 2 * (image.width - size.width);
  return resampler === 'pillow' && image.height > 100 * image.width;
}

/** {@link Resample} on WebAssembly SIMD where it is available, else in JavaScript, with the same pixels. One instance per thread. */
export const resample: Resample = createResample(sharedSimdModule);

/** An image of which regions are read; they lie inside it. */
export interface ImageRegions extends Size {
  read(region: Region): Promise<RgbImage>;
}

/** Resizes an image of which regions are read. The result is that of {@link resample}. */
export async function resampleRegion(
  image: ImageRegions,
  size: Size,
  region: Region,
  sampling: Sampling,
): Promise<RgbImage> {
  const plan = planResample(image, size, region, sampling);
  const needed = readRegion(plan);
  const halves = needed.height * needed.width > MOST_READ && halve(region);
  if (!halves) {
    const part = await image.read(needed);
    const data = takeBytes(region, undefined);
    const moved = ofPart(plan);
    const simd = moved.rows || moved.columns ? sharedSimdModule() : null;
    if (!simd || !resampleInSimd(simd, part, moved, data)) resampleInJs(part, moved, data);
    return { height: region.height, width: region.width, data };
  }
  const data = takeBytes(region, undefined);
  for (const half of halves) {
    const { height, width, data: pixels } = await resampleRegion(image, size, half, sampling);
    const offset = ((half.top - region.top) * region.width + half.left - region.left) * 3;
    copyRows(
      { data: pixels, offset: 0, pitch: width * 3 },
      { data, offset, pitch: region.width * 3 },
      height,
      width * 3,
    );
  }
  return { height: region.height, width: region.width, data };
}

/** The most pixels of an image that are read at once for a region of what it is resized to. */
const MOST_READ = 2 ** 24;

/** The halves of a region, along its longer side; undefined for a single pixel. */
function halve(region: Region): readonly [Region, Region] | undefined {
  const { top, left, height, width } = region;
  if (height === 1 && width === 1) return undefined;
  const half = Math.ceil(Math.max(height, width) / 2);
  return height >= width
    ? [
        { ...region, height: half },
        { ...region, top: top + half, height: height - half },
      ]
    : [
        { ...region, width: half },
        { ...region, left: left + half, width: width - half },
      ];
}

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

/** Gives all pixels one colour. */
export function fillWith(data: Uint8Array, [red, green, blue]: Colour): void {
  if (red === green && green === blue) data.fill(red);
  else for (let at = 0; at < data.length; at += 3) data.set([red, green, blue], at);
}
