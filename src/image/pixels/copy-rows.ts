/** Rows of bytes from one picture into another. */

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
