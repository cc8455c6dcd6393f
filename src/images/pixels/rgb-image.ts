/** Decoded pixels, and copying their rows. */
import { invalidOption } from '../../base/checks.js';
import type { Size } from './geometry.js';

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
