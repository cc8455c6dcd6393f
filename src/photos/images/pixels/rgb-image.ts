/** Decoded pixels, and copying their rows. */
import { invalidOption } from '../../../base/checks.js';
import type { Region, Size } from './geometry.js';

/** An 8-bit RGB image: rows of pixels, three bytes each. */
export interface RgbImage extends Size {
  /** `height × width × 3` bytes. */
  readonly data: Uint8Array;
  /** The size that a resize assumes, by default the image's own. For a reduced image it may not be whole pixels. */
  readonly span?: Size;
}

/** Refuses what is not an image of whole rows. */
export function checkRgbImage(image: Partial<RgbImage> | null | undefined): void {
  const { data, width, height } = image ?? {};
  const isBytes = data instanceof Uint8Array;
  if (isBytes && Number.isInteger(width) && Number.isInteger(height) && data.length === 3 * width! * height!)
    return;
  throw invalidOption('image', 'an image { width, height, data } with three bytes per pixel', image);
}

/** An 8-bit RGB image that may hold its rows only while they are read. */
export interface RgbRows extends Size {
  /** Copies `bytes` of each of `count` rows, starting at a column. Rows can only be read from top to bottom. */
  copyRows(row: number, column: number, count: number, bytes: number, to: Rows): void;
}

/** The rows of an image in memory. */
export function rowsOf({ height, width, data }: RgbImage): RgbRows {
  const pitch = width * 3;
  return {
    height,
    width,
    copyRows(row, column, count, bytes, to) {
      copyRows({ data, offset: row * pitch + column * 3, pitch }, to, count, bytes);
    },
  };
}

/** Bytes in rows: the offset of the first byte, and the distance from row to row. */
export interface Rows {
  readonly data: Uint8Array;
  readonly offset: number;
  readonly pitch: number;
}

/** Copies `count` rows of `bytes` bytes. */
export function copyRows(from: Rows, to: Rows, count: number, bytes: number): void {
  const whole = from.pitch === bytes && to.pitch === bytes;
  const [runs, length] = whole ? [1, count * bytes] : [count, bytes];
  for (let row = 0; row < runs; row++) {
    const start = from.offset + row * from.pitch;
    to.data.set(from.data.subarray(start, start + length), to.offset + row * to.pitch);
  }
}

/** A copy of a region that lies inside an image. */
export function cutRegion(image: RgbImage, { top, left, height, width }: Region): RgbImage {
  const data = new Uint8Array(height * width * 3);
  const from = { data: image.data, offset: (top * image.width + left) * 3, pitch: image.width * 3 };
  copyRows(from, { data, offset: 0, pitch: width * 3 }, height, width * 3);
  return { height, width, data };
}

/** A size with its sides exchanged. */
export function turned({ height, width }: Size): Size {
  return { height: width, width: height };
}

/** Pixels per side of the squares that are transposed one after the other: their bytes stay in the cache. */
const BLOCK = 32;

/** An image with rows and columns exchanged. */
export function transpose(image: RgbImage, into: Uint8Array = new Uint8Array(image.data.length)): RgbImage {
  const { height, width, data, span } = image;
  for (let top = 0; top < height; top += BLOCK)
    for (let left = 0; left < width; left += BLOCK)
      for (let y = top; y < Math.min(top + BLOCK, height); y++)
        for (let x = left; x < Math.min(left + BLOCK, width); x++) {
          const from = (y * width + x) * 3;
          const to = (x * height + y) * 3;
          into[to] = data[from]!;
          into[to + 1] = data[from + 1]!;
          into[to + 2] = data[from + 2]!;
        }
  return { ...turned(image), data: into, ...(span ? { span: turned(span) } : {}) };
}

/** Swaps the first and the last of the three channels of each pixel, in place. */
export function reverseChannels(data: Uint8Array | Float32Array): void {
  for (let at = 0; at < data.length; at += 3) {
    const first = data[at]!;
    data[at] = data[at + 2]!;
    data[at + 2] = first;
  }
}

/** Makes pixels grey in place, as Pillow's `convert("L")`: the three channels become its luma. */
export function toGrey(data: Uint8Array): void {
  for (let at = 0; at < data.length; at += 3) {
    const luma = (data[at]! * 19_595 + data[at + 1]! * 38_470 + data[at + 2]! * 7471 + 0x8000) >> 16;
    data[at] = data[at + 1] = data[at + 2] = luma;
  }
}
