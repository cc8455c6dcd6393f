/** Writes the tables of `wasm/jpeg.ts` into its memory. */
import type { HuffmanSpec } from './jpeg-header.js';

const SIDE = 8;
const LOOK_BITS = 10;
const ENTRIES = 1 << LOOK_BITS;
/** After the entries: for each code length its limit, then the offset from code to symbol, then the symbols. */
const LIMITS = ENTRIES;
const OFFSETS = ENTRIES + 16;
const SYMBOL_BYTES = (ENTRIES + 32) * 4;
/** Bytes of a Huffman table in memory. */
export const HUFFMAN_BYTES: number = SYMBOL_BYTES + 256;

/** For each position in the zigzag, its index in a block of 64. */
const ZIGZAG: Uint8Array = zigzag();

function zigzag(): Uint8Array {
  const order = new Uint8Array(SIDE * SIDE);
  let next = 0;
  for (let sum = 0; sum < 2 * SIDE - 1; sum++) {
    const first = Math.max(0, sum - SIDE + 1);
    for (let step = first; step <= Math.min(sum, SIDE - 1); step++) {
      const row = sum % 2 ? step : sum - step;
      order[next++] = row * SIDE + sum - row;
    }
  }
  return order;
}

/** Writes the byte offset of each coefficient in a block; those beyond the 64th go after the block. */
export function putZigzag(bytes: Uint8Array, at: number): void {
  for (let k = 0; k < ZIGZAG.length; k++) bytes[at + k] = ZIGZAG[k]! * 2;
  bytes.fill(SIDE * SIDE * 2, at + ZIGZAG.length, at + ZIGZAG.length + 16);
}

/** Writes factors from zigzag order as 16-bit numbers, row by row. */
export function putQuant(bytes: Uint8Array, at: number, factors: Uint8Array): void {
  for (let k = 0; k < ZIGZAG.length; k++) {
    const to = at + ZIGZAG[k]! * 2;
    bytes[to] = factors[k]!;
    bytes[to + 1] = 0;
  }
}

/**
 * Writes a Huffman table that is indexed by the next 10 bits. An entry holds the length of the code in bits 0 to 7, the run of
 * zeros from bit 8 on, and the size of the number from bit 12 on; it is 0 if the code is longer than 10 bits. In tables for AC
 * coefficients, the upper half of an entry holds the number itself if it fits into the 10 bits; the length then includes it.
 *
 * @returns False if a length has more codes than its bits allow.
 */
export function putHuffman(
  bytes: Uint8Array,
  at: number,
  { counts, symbols }: HuffmanSpec,
  isDc: boolean,
): boolean {
  const words = new Int32Array(bytes.buffer, at, HUFFMAN_BYTES / 4);
  words.fill(0);
  bytes.set(symbols, at + SYMBOL_BYTES);
  let code = 0;
  let index = 0;
  for (let length = 1; length <= 16; length++) {
    const count = counts[length - 1]!;
    words[OFFSETS + length - 1] = index - code;
    if (code + count > 1 << length) return false;
    if (length <= LOOK_BITS) {
      for (let i = 0; i < count; i++) {
        const first = (code + i) << (LOOK_BITS - length);
        putEntries(words, first, length, symbols[index + i]!, isDc);
      }
    }
    code += count;
    index += count;
    words[LIMITS + length - 1] = code << (16 - length);
    code <<= 1;
  }
  return true;
}

/** Writes all entries whose bits begin with a code. */
function putEntries(words: Int32Array, first: number, length: number, symbol: number, isDc: boolean): void {
  const run = symbol >> 4;
  const size = symbol & 15;
  const spare = LOOK_BITS - length;
  const plain = length | (run << 8) | (size << 12);
  const last = first + (1 << spare);
  if (isDc || size === 0 || size > spare) {
    words.fill(plain, first, last);
    return;
  }
  const each = 1 << (spare - size);
  for (let number = 0; number < 1 << size; number++) {
    const value = number >> (size - 1) ? number : number - (1 << size) + 1;
    const entry = (length + size) | (run << 8) | (value << 16);
    words.fill(entry, first + number * each, first + (number + 1) * each);
  }
}
