/** Which pixels a resampling computes, with which weights. The JavaScript and the SIMD code execute the same plan. */
import type { Region, Size } from '../pixels/geometry.js';
import { kernelOf, type Kernel, type Sampling } from './kernel.js';

/** The passes over an image, and where the result goes. The size is that of the part of the region that has pixels. */
export interface ResamplePlan extends Size {
  /** The vertical pass; null if the height stays the same. */
  readonly rows: Kernel | null;
  /** The horizontal pass; null if the width stays the same. */
  readonly columns: Kernel | null;
  /** The first row of the image that is read. */
  readonly firstRow: number;
  /** The row after the last one that is read. */
  readonly lastRow: number;
  /** The first column of the image that is read. */
  readonly firstColumn: number;
  /** The column after the last one that is read. */
  readonly lastColumn: number;
  /** Bytes per row of the region. */
  readonly pitch: number;
  /** Offset of the first pixel in the region. */
  readonly offset: number;
}

/** The part of a region that lies inside an image of a size: its edges, of which the last two are those after it. */
export function visiblePart(size: Size, region: Region): Record<'left' | 'top' | 'right' | 'bottom', number> {
  return {
    left: Math.max(0, region.left),
    top: Math.max(0, region.top),
    right: Math.min(size.width, region.left + region.width),
    bottom: Math.min(size.height, region.top + region.height),
  };
}

/** The part of an image that a plan reads. */
export function readRegion({ firstRow, lastRow, firstColumn, lastColumn }: ResamplePlan): Region {
  return {
    top: firstRow,
    left: firstColumn,
    height: lastRow - firstRow,
    width: lastColumn - firstColumn,
  };
}

/** A plan for an image of which only the part that it reads is there. */
export function ofPart(plan: ResamplePlan): ResamplePlan {
  const { rows, columns, firstRow, lastRow, firstColumn, lastColumn } = plan;
  const move = (kernel: Kernel | null, by: number): Kernel | null =>
    kernel && { ...kernel, first: kernel.first.map((at) => at - by) };
  return {
    ...plan,
    rows: move(rows, firstRow),
    columns: move(columns, firstColumn),
    firstRow: 0,
    lastRow: lastRow - firstRow,
    firstColumn: 0,
    lastColumn: lastColumn - firstColumn,
  };
}

/** Plans the resizing of an image, only for the pixels in a region of the result. */
export function planResample(
  image: Size & { readonly span?: Size },
  size: Size,
  region: Region,
  { interpolation, resampler }: Sampling,
): ResamplePlan {
  const { span = image } = image;
  const { left, top, right, bottom } = visiblePart(size, region);
  const pass = (side: keyof Size, from: number, to: number): Kernel | null => {
    if (size[side] === image[side]) return null;
    const sizes = { inSize: image[side], span: span[side], outSize: size[side] };
    return kernelOf({ ...sizes, from, to, interpolation, resampler });
  };
  const rows = pass('height', top, bottom);
  const columns = pass('width', left, right);
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
