/** Resizing a JPEG while it is decoded: the whole image is never there. */
import type { Region, Size } from './pixels/geometry.js';
import { readJpegRows, type JpegOptions } from './jpeg/jpeg.js';
import type { Interpolation } from './resample/kernel.js';
import { takeRegion } from './resample/resample.js';
import { planResample } from './resample/resample-plan.js';
import { planPasses, runPasses, type Passes } from './resample/resample-simd.js';
import type { RgbImage, RgbRows } from './pixels/rgb-image.js';
import { sharedSimdModule, type SimdModule } from './simd/simd-module.js';

/** What becomes of an image: the size of all of it, and what is cut out. */
export interface ResampleTarget {
  readonly size: Size;
  readonly region: Region;
  readonly interpolation: Interpolation;
}

/** Resized pixels, and the size of the image that they were made of. */
export interface ResampledJpeg extends RgbImage {
  readonly source: Size;
  /** Milliseconds without those of decoding. */
  readonly resampleMs: number;
}

/**
 * Does what `resample` does with the pixels of `decodeJpeg`.
 *
 * @param targetOf - Says what becomes of an image of a size.
 * @param into - As of `resample`; holds anything if nothing is returned.
 * @returns Undefined where either of them, or both at once, cannot be done in WebAssembly.
 */
export function resampleJpeg(
  bytes: Uint8Array,
  options: JpegOptions,
  targetOf: (image: Size) => ResampleTarget,
  into?: Uint8Array,
  startSimd: () => SimdModule | null = sharedSimdModule,
): ResampledJpeg | undefined {
  let region: Region;
  let passes: Passes;
  return readJpegRows(bytes, options, startSimd, {
    spareBytes: (image, freeAt) => {
      const target = targetOf(image);
      region = target.region;
      const plan = planResample(image, target.size, region, target.interpolation);
      if (!plan.rows && !plan.columns) return null;
      passes = planPasses(image.width, plan, freeAt);
      return passes.layout.end - freeAt;
    },
    read: (rows, simd) => {
      const data = takeRegion(region, passes.plan, into);
      const { height, width } = rows;
      const timed = new TimedRows(rows);
      const started = performance.now();
      runPasses(simd, timed, passes, data);
      const resampleMs = performance.now() - started - timed.spentMs;
      return { height: region.height, width: region.width, data, source: { height, width }, resampleMs };
    },
  });
}

class TimedRows implements RgbRows {
  spentMs = 0;
  readonly height: number;
  readonly width: number;
  readonly #rows: RgbRows;

  constructor(rows: RgbRows) {
    this.#rows = rows;
    this.height = rows.height;
    this.width = rows.width;
  }

  copyRows(...given: Parameters<RgbRows['copyRows']>): void {
    const started = performance.now();
    this.#rows.copyRows(...given);
    this.spentMs += performance.now() - started;
  }
}
