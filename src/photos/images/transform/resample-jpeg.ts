/** Resizes a JPEG while it is decoded, so that the whole image is never in memory. */
import type { Region, Size } from '../pixels/geometry.js';
import { readJpegRows, type JpegOptions } from '../jpeg/jpeg.js';
import type { Sampling } from '../resample/kernel.js';
import { takeRegion, takesRowsFirst, type Colour } from '../resample/resample.js';
import { planResample } from '../resample/resample-plan.js';
import { planPasses, runPasses, type Passes } from '../resample/resample-simd.js';
import type { RgbImage, RgbRows } from '../pixels/rgb-image.js';
import { sharedSimdModule, type SimdModule } from '../simd/simd-module.js';

/** The size to resize an image to, and the region to cut from the result. */
export interface ResampleTarget extends Sampling {
  readonly size: Size;
  readonly region: Region;
  /** Colour of the region beyond the image. */
  readonly fill: Colour;
}

/** Resized pixels, and the size of the image in the file. */
export interface ResampledJpeg extends RgbImage {
  readonly source: Size;
  /** Milliseconds of resizing, without decoding. */
  readonly resampleMs: number;
}

/**
 * Gives the result of `decodeJpeg` followed by `resample`.
 *
 * @param targetOf - Returns the target for an image of a size.
 * @param into - As in `resample`. If nothing is returned, it may hold part of an image.
 * @returns Undefined if WebAssembly cannot do either step, or both at once.
 */
export function resampleJpeg(
  bytes: Uint8Array,
  options: JpegOptions,
  targetOf: (image: Size) => ResampleTarget,
  into?: Uint8Array,
  startSimd: () => SimdModule | null = sharedSimdModule,
): ResampledJpeg | undefined {
  let target: ResampleTarget;
  let passes: Passes;
  return readJpegRows(bytes, options, startSimd, {
    spareBytes: (image, freeAt) => {
      target = targetOf(image);
      if (takesRowsFirst(image, target.size, target)) return null;
      const plan = planResample(image, target.size, target.region, target);
      if (!plan.rows && !plan.columns) return null;
      passes = planPasses(image.width, plan, freeAt);
      return passes.layout.end - freeAt;
    },
    read: (rows, simd) => {
      const { region, fill } = target;
      const data = takeRegion(region, passes.plan, into, fill);
      const { height, width } = rows;
      let decodeMs = 0;
      const timed: RgbRows = {
        height,
        width,
        copyRows(...given) {
          const before = performance.now();
          rows.copyRows(...given);
          decodeMs += performance.now() - before;
        },
      };
      const started = performance.now();
      runPasses(simd, timed, passes, data);
      const resampleMs = performance.now() - started - decodeMs;
      return { height: region.height, width: region.width, data, source: { height, width }, resampleMs };
    },
  });
}
