/** Run lengths of BMP files → colour indices. */
import { CutOff } from './bmp-header.js';

const END_OF_LINE = 0;
const END_OF_BITMAP = 1;
const DELTA = 2;

/**
 * Decodes RLE8 or RLE4 as Pillow does: pixels that a delta or the end of a line skips get index 0, and a run that exceeds its
 * line is cut off there.
 *
 * @param bytes - The whole file: literal pixels are padded to even offsets in it.
 * @param start - Offset of the runs.
 * @param isRle4 - Whether a byte holds two indices instead of one.
 * @returns `width × height` indices in the order of the file.
 * @throws {@link CutOff} if the file ends too early; Error if the mark for the end of the bitmap comes too early.
 */
export function decodeRunLengths(
  bytes: Uint8Array,
  start: number,
  width: number,
  height: number,
  isRle4: boolean,
): Uint8Array {
  const total = width * height;
  // Two bytes hold at most a run of 255 pixels, and four a delta over 255 lines. A file too short for its size is refused here.
  if ((bytes.byteLength - start) * 64 * (width + 1) < total) throw cutOff();
  const out = new Uint8Array(total);
  let from = start;
  let to = 0;
  let column = 0;
  while (to < total) {
    if (from + 2 > bytes.byteLength) throw cutOff();
    const count = bytes[from]!;
    const value = bytes[from + 1]!;
    from += 2;
    if (count > 0) {
      const run = Math.max(0, Math.min(count, width - column));
      if (isRle4) for (let i = 0; i < run; i++) out[to + i] = i % 2 === 0 ? value >> 4 : value & 15;
      else out.fill(value, to, to + run);
      to += run;
      column += run;
    } else if (value === END_OF_LINE) {
      to = Math.ceil(to / width) * width;
      column = 0;
    } else if (value === END_OF_BITMAP) {
      throw new Error('it is damaged: its runs end before its pixels do');
    } else if (value === DELTA) {
      if (from + 2 > bytes.byteLength) throw cutOff();
      to += bytes[from]! + bytes[from + 1]! * width;
      from += 2;
      column = to % width;
    } else {
      const literals = Math.min(value, total - to);
      const stored = isRle4 ? Math.ceil(literals / 2) : literals;
      if (from + stored > bytes.byteLength) throw cutOff();
      for (let i = 0; i < literals; i++) {
        const byte = bytes[from + (isRle4 ? i >> 1 : i)]!;
        out[to + i] = !isRle4 ? byte : i % 2 === 0 ? byte >> 4 : byte & 15;
      }
      to += literals;
      column += value;
      from += stored;
      from += from % 2;
    }
  }
  return out;
}

function cutOff(): CutOff {
  return new CutOff('its runs of pixels are cut off');
}
