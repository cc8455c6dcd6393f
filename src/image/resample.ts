/**
 * Pillow's 8-bit resampling, bit for bit: separable, horizontal pass first, fixed-point weights of 22 bits, rounded to
 * 8 bits between the passes. Algorithm: Pillow, src/libImaging/Resample.c (MIT-CMU licence).
 */
import type { Region, Size } from './geometry.js';

/** Interpolations that torchvision's Resize takes by these names. */
export type Interpolation = 'bilinear' | 'bicubic';

/** An 8-bit RGB image: rows of pixels, three bytes each. */
export interface RgbImage extends Size {
  /** `height × width × 3` bytes. */
  readonly data: Uint8Array;
}

interface Filter {
  readonly support: number;
  weight(x: number): number;
}

const FILTERS: Readonly<Record<Interpolation, Filter>> = {
  bilinear: {
    support: 1,
    weight(x) {
      const at = Math.abs(x);
      return at < 1 ? 1 - at : 0;
    },
  },
  bicubic: {
    support: 2,
    weight(x) {
      const a = -0.5;
      const at = Math.abs(x);
      if (at < 1) return ((a + 2) * at - (a + 3)) * at * at + 1;
      return at < 2 ? (((at - 5) * at + 8) * at - 4) * a : 0;
    },
  },
};

const PRECISION_BITS = 32 - 8 - 2;
const HALF = 1 << (PRECISION_BITS - 1);

/** Weights of one axis for the output positions `from` to `to`: which inputs each one reads, and how much of them. */
interface Kernel {
  readonly from: number;
  readonly to: number;
  readonly first: Int32Array;
  readonly counts: Int32Array;
  /** `stride` weights per output position. */
  readonly weights: Int32Array;
  readonly stride: number;
}

function createKernel(inSize: number, outSize: number, from: number, to: number, filter: Filter): Kernel {
  const scale = inSize / outSize;
  const filterScale = Math.max(scale, 1);
  const support = filter.support * filterScale;
  const inverse = 1 / filterScale;
  const stride = Math.ceil(support) * 2 + 1;
  const first = new Int32Array(to - from);
  const counts = new Int32Array(to - from);
  const weights = new Int32Array((to - from) * stride);
  const exact = new Float64Array(stride);
  for (let position = from; position < to; position++) {
    const center = (position + 0.5) * scale;
    const start = Math.max(0, Math.trunc(center - support + 0.5));
    const count = Math.min(inSize, Math.trunc(center + support + 0.5)) - start;
    let sum = 0;
    for (let i = 0; i < count; i++) sum += exact[i] = filter.weight((i + start - center + 0.5) * inverse);
    const at = position - from;
    first[at] = start;
    counts[at] = count;
    for (let i = 0; i < count; i++) {
      const weight = (sum === 0 ? exact[i]! : exact[i]! / sum) * (1 << PRECISION_BITS);
      weights[at * stride + i] = Math.trunc(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
  }
  return { from, to, first, counts, weights, stride };
}

/** The 22-bit sum of weighted bytes as a byte. */
function toByte(sum: number): number {
  const value = sum >> PRECISION_BITS;
  return value < 0 ? 0 : value > 255 ? 255 : value;
}

/**
 * Resizes an image and cuts a region out of the result; only the pixels of that region are computed.
 *
 * @param image - 8-bit RGB.
 * @param size - Size of the whole resized image.
 * @param region - What to cut out; beyond the image, pixels are 0.
 * @returns A new image of the region's size.
 */
export function resample(
  image: RgbImage,
  size: Size,
  region: Region,
  interpolation: Interpolation,
): RgbImage {
  const filter = FILTERS[interpolation];
  const left = Math.max(0, region.left);
  const right = Math.min(size.width, region.left + region.width);
  const top = Math.max(0, region.top);
  const bottom = Math.min(size.height, region.top + region.height);
  const rows =
    size.height === image.height ? null : createKernel(image.height, size.height, top, bottom, filter);
  const firstRow = rows ? rows.first[0]! : top;
  const lastRow = rows ? rows.first.at(-1)! + rows.counts.at(-1)! : bottom;
  const columns =
    size.width === image.width ? null : createKernel(image.width, size.width, left, right, filter);
  const narrow = columns
    ? resampleColumns(image, columns, firstRow, lastRow)
    : copyColumns(image, left, right, firstRow, lastRow);
  const inside = rows ? resampleRows(narrow, rows, firstRow, right - left) : narrow;
  const result = { height: bottom - top, width: right - left, data: inside };
  return result.height === region.height && result.width === region.width
    ? result
    : pad(result, region, top, left);
}

function copyColumns(
  image: RgbImage,
  left: number,
  right: number,
  firstRow: number,
  lastRow: number,
): Uint8Array {
  if (left === 0 && right === image.width)
    return image.data.subarray(firstRow * right * 3, lastRow * right * 3);
  const bytes = (right - left) * 3;
  const out = new Uint8Array((lastRow - firstRow) * bytes);
  for (let row = firstRow; row < lastRow; row++) {
    const from = (row * image.width + left) * 3;
    out.set(image.data.subarray(from, from + bytes), (row - firstRow) * bytes);
  }
  return out;
}

function resampleColumns(image: RgbImage, columns: Kernel, firstRow: number, lastRow: number): Uint8Array {
  const { first, counts, weights, stride } = columns;
  const { data } = image;
  const width = columns.to - columns.from;
  const out = new Uint8Array((lastRow - firstRow) * width * 3);
  let at = 0;
  for (let row = firstRow; row < lastRow; row++) {
    const rowStart = row * image.width * 3;
    for (let x = 0; x < width; x++) {
      let from = rowStart + first[x]! * 3;
      let red = HALF;
      let green = HALF;
      let blue = HALF;
      const end = x * stride + counts[x]!;
      for (let k = x * stride; k < end; k++) {
        const weight = weights[k]!;
        red = (red + data[from]! * weight) | 0;
        green = (green + data[from + 1]! * weight) | 0;
        blue = (blue + data[from + 2]! * weight) | 0;
        from += 3;
      }
      out[at++] = toByte(red);
      out[at++] = toByte(green);
      out[at++] = toByte(blue);
    }
  }
  return out;
}

/** `rows` of the image begin at `firstRow` of the original. */
function resampleRows(data: Uint8Array, rows: Kernel, firstRow: number, width: number): Uint8Array {
  const { first, counts, weights, stride } = rows;
  const height = rows.to - rows.from;
  const bytes = width * 3;
  const out = new Uint8Array(height * bytes);
  const sums = new Int32Array(bytes);
  for (let y = 0; y < height; y++) {
    sums.fill(HALF);
    for (let k = 0; k < counts[y]!; k++) {
      const weight = weights[y * stride + k]!;
      const from = (first[y]! - firstRow + k) * bytes;
      for (let i = 0; i < bytes; i++) sums[i] = sums[i]! + data[from + i]! * weight;
    }
    const at = y * bytes;
    for (let i = 0; i < bytes; i++) out[at + i] = toByte(sums[i]!);
  }
  return out;
}

function pad(image: RgbImage, region: Region, top: number, left: number): RgbImage {
  const data = new Uint8Array(region.height * region.width * 3);
  const bytes = image.width * 3;
  for (let row = 0; row < image.height; row++) {
    const to = ((row + top - region.top) * region.width + left - region.left) * 3;
    data.set(image.data.subarray(row * bytes, (row + 1) * bytes), to);
  }
  return { height: region.height, width: region.width, data };
}
