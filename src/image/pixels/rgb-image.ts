/** Decoded pixels. */
import type { Size } from './geometry.js';

/** An 8-bit RGB image: rows of pixels, three bytes each. */
export interface RgbImage extends Size {
  /** `height × width × 3` bytes. */
  readonly data: Uint8Array;
  /** What a resize takes for its size, in its pixels: that of a reduced image is not a whole number of them. Its own if absent. */
  readonly span?: Size;
}

/** An 8-bit RGB image whose rows may be there only while they are read. */
export interface RgbRows extends Size {
  /** Copies `bytes` of each of some rows, from a column on. No row before those that were read last may be asked for. */
  copyRows(row: number, column: number, count: number, bytes: number, to: Rows): void;
}

/** The rows of an image that is there. */
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

/** Bytes in rows: the first byte, and how many from row to row. */
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
