/** What a resampling computes: which pixels, with which weights. Both twins carry it out. */
import type { Region, Size } from '../pixels/geometry.js';
import { kernelOf, type Interpolation, type Kernel } from './kernel.js';

/** Passes over an image and where their result goes; {@link Size} is that of the part of the region that has pixels. */
export interface ResamplePlan extends Size {
  /** The vertical pass; null where the height stays. */
  readonly rows: Kernel | null;
  /** The horizontal pass; null where the width stays. */
  readonly columns: Kernel | null;
  /** Rows of the image that are read: from this one … */
  readonly firstRow: number;
  /** … to before this one. */
  readonly lastRow: number;
  /** Columns of the image that are read: from this one … */
  readonly firstColumn: number;
  /** … to before this one. */
  readonly lastColumn: number;
  /** Bytes of a row of the region. */
  readonly pitch: number;
  /** Byte of the region where the first pixel goes. */
  readonly offset: number;
}

/** Plans the resizing of an image, for the pixels of a region of the result only. */
export function planResample(
  image: Size & { readonly span?: Size },
  size: Size,
  region: Region,
  interpolation: Interpolation,
): ResamplePlan {
  const { span = image } = image;
  const left = Math.max(0, region.left);
  const right = Math.min(size.width, region.left + region.width);
  const top = Math.max(0, region.top);
  const bottom = Math.min(size.height, region.top + region.height);
  const rows =
    size.height === image.height
      ? null
      : kernelOf({
          inSize: image.height,
          span: span.height,
          outSize: size.height,
          from: top,
          to: bottom,
          interpolation,
        });
  const columns =
    size.width === image.width
      ? null
      : kernelOf({
          inSize: image.width,
          span: span.width,
          outSize: size.width,
          from: left,
          to: right,
          interpolation,
        });
  return {
    height: bottom - top,
    width: right - left,
    rows,
    columns,
    firstRow: rows ? rows.first[0]! : top,
    lastRow: rows ? rows.first.at(-1)! + rows.counts.at(-1)! : bottom,
    firstColumn: columns ? columns.first[0]! : left,
    lastColumn: columns ? columns.first.at(-1)! + columns.counts.at(-1)! : right,
    pitch: region.width * 3,
    offset: ((top - region.top) * region.width + left - region.left) * 3,
  };
}
