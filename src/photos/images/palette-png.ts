/** A PNG whose pixels are numbers of a palette: the numbers stay what they are (PNG specification, third edition). */
import { crc32, deflateSync } from 'node:zlib';
import type { Size } from './pixels/geometry.js';

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const INDEXED = 3;

/**
 * Encodes numbers of colours.
 *
 * @param numbers - A byte per pixel, row by row, each below the number of colours.
 * @param colours - Red, green and blue of at most 256 colours.
 */
export function encodePalettePng(
  { height, width }: Size,
  numbers: Uint8Array,
  colours: readonly (readonly [number, number, number])[],
): Uint8Array {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, INDEXED], 8);
  // Every row begins with a byte that says that it is not filtered.
  const rows = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y++)
    rows.set(numbers.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('PLTE', Uint8Array.from(colours.flat())),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', new Uint8Array(0)),
  ]);
}

function chunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.byteLength);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}
