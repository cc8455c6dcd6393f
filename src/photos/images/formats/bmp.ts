/** BMP → 8-bit RGB, as Pillow's `convert("RGB")` does it. sharp's libvips cannot decode BMP. */
import { onWhite } from '../pixels/on-white.js';
import { type BmpHeader, CutOff } from './bmp-header.js';

/**
 * Decodes the pixels of a BMP; alpha is dropped, or lies over white.
 *
 * @param header - Its header. The caller has checked the size against a limit: this allocates `width × height × 3` bytes,
 * for uncompressed images only if the file is long enough for their rows.
 * @returns `width × height × 3` bytes, rows from top to bottom.
 * @throws Error with the reason if an index is outside the palette or the runs end too early; {@link CutOff} if the file ends
 * too early.
 */
export function decodeBmp(bytes: Uint8Array, header: BmpHeader, isOnWhite = false): Uint8Array {
  const { width, height, bits, compression, palette, masks, alphaMask } = header;
  if (compression !== 'none') {
    const indices = decodeRunLengths(bytes, header.dataOffset, width, height, compression === 'rle4');
    return unpack(header, (to, row, out) => {
      for (let x = 0, from = row * width; x < width; x++, from++, to += 3)
        putColour(out, to, palette!, indices[from]!);
    });
  }
  // Rows are padded to a multiple of 4 bytes; the last row may lack its padding.
  const rowBytes = Math.ceil((width * bits) / 8);
  const stride = Math.ceil(rowBytes / 4) * 4;
  const start = header.dataOffset;
  if (start + stride * (height - 1) + rowBytes > bytes.byteLength)
    throw new CutOff('its last rows are cut off');
  if (palette) {
    const mask = 2 ** bits - 1;
    return unpack(header, (to, row, out) => {
      const rowStart = start + row * stride;
      for (let x = 0, bit = 0; x < width; x++, bit += bits, to += 3) {
        // The leftmost pixel is in the highest bits of a byte.
        const index = (bytes[rowStart + (bit >> 3)]! >> (8 - bits - (bit & 7))) & mask;
        putColour(out, to, palette, index);
      }
    });
  }
  if (bits === 24) {
    return unpack(header, (to, row, out) => {
      for (let x = 0, from = start + row * stride; x < width; x++, from += 3, to += 3) {
        out[to] = bytes[from + 2]!;
        out[to + 1] = bytes[from + 1]!;
        out[to + 2] = bytes[from]!;
      }
    });
  }
  const [red, green, blue] = masks!.map(createChannel) as [Channel, Channel, Channel];
  const opacity = isOnWhite && alphaMask !== 0 ? createChannel(alphaMask) : undefined;
  const pixelBytes = bits / 8;
  return unpack(header, (to, row, out) => {
    for (let x = 0, from = start + row * stride; x < width; x++, from += pixelBytes, to += 3) {
      let pixel = bytes[from]! | (bytes[from + 1]! << 8);
      if (pixelBytes === 4) pixel |= (bytes[from + 2]! << 16) | (bytes[from + 3]! << 24);
      out[to] = red.values[(pixel >>> red.shift) & red.max]!;
      out[to + 1] = green.values[(pixel >>> green.shift) & green.max]!;
      out[to + 2] = blue.values[(pixel >>> blue.shift) & blue.max]!;
      if (!opacity) continue;
      const alpha = opacity.values[(pixel >>> opacity.shift) & opacity.max]!;
      for (let channel = 0; channel < 3; channel++) out[to + channel] = onWhite(out[to + channel]!, alpha);
    }
  });
}

/** Builds the image row by row. `unpackRow` gets the offset of a row in the result and the number of its stored row. */
function unpack(
  { width, height, isTopDown }: BmpHeader,
  unpackRow: (to: number, row: number, out: Uint8Array) => void,
): Uint8Array {
  const out = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) unpackRow(y * width * 3, isTopDown ? y : height - 1 - y, out);
  return out;
}

function putColour(out: Uint8Array, to: number, palette: Uint8Array, index: number): void {
  const from = index * 3;
  if (from >= palette.length)
    throw new Error(`a pixel has colour ${index}, but its BMP palette has ${palette.length / 3}`);
  out[to] = palette[from]!;
  out[to + 1] = palette[from + 1]!;
  out[to + 2] = palette[from + 2]!;
}

/** A channel of pixels with masks: the position of its bits, and the byte for each of their values. */
interface Channel {
  readonly shift: number;
  readonly max: number;
  readonly values: Uint8Array;
}

/** Scales the largest value to 255 and truncates, as Pillow does for 5 and 6 bits. */
function createChannel(mask: number): Channel {
  const shift = 31 - Math.clz32(mask & -mask);
  const max = mask >>> shift;
  return { shift, max, values: Uint8Array.from({ length: max + 1 }, (_, value) => (value * 255) / max) };
}

const END_OF_LINE = 0;
const END_OF_BITMAP = 1;
const DELTA = 2;

/**
 * Decodes RLE8 or RLE4 as Pillow does: pixels that a delta or the end of a line skips get index 0, and a run that exceeds its
 * line is cut off there.
 *
 * @param bytes - The whole file: literal pixels are padded to even offsets in it.
 * @returns `width × height` indices in the order of the file.
 * @throws {@link CutOff} if the file ends too early; Error if the mark for the end of the bitmap comes too early.
 */
function decodeRunLengths(
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
