/** Huffman decoding of a block (ITU-T T.81, annex F.2.2). */
import {
  BLOCK,
  LIMITS,
  LOOK_BITS,
  OFFSETS,
  SYMBOLS,
  ZIGZAG,
  at,
  bits,
  count,
  end,
  refillSlowly,
  setAt,
  setReader,
} from './jpeg-state';

/** 8-bit pixels give no larger differences and coefficients. */
const MAX_DC_BITS: i32 = 11;
const MAX_AC_BITS: i32 = 10;
const MAX_DC: i32 = 2047;

/** The block is not from a sound file. */
export const BAD: i32 = -1;

/** The DC coefficient of the last block. */
export let dc: i32 = 0;

/**
 * The entry for a code that is too long for the table, as `length | run << 8 | size << 12`; 0 if there is no such code.
 */
function longEntry(table: usize, peeked: i32): i32 {
  for (let length = LOOK_BITS + 1; length <= 16; length++) {
    const slot = table + ((<usize>(length - 1)) << 2);
    if (peeked < load<i32>(slot, LIMITS)) {
      const index = ((peeked >> (16 - length)) + load<i32>(slot, OFFSETS)) & 255;
      const symbol = <i32>load<u8>(table + <usize>index, SYMBOLS);
      return length | ((symbol >> 4) << 8) | ((symbol & 15) << 12);
    }
  }
  return 0;
}

/** The number that the highest `size` bits mean (F.2.2.1, EXTEND). */
function extended(from: u64, size: i32): i32 {
  const value = <i32>((from >> 1) >> (63 - size));
  return value + ((<i32>(from >> 63) - 1) & (1 - (1 << size)));
}

const ONES: u64 = ((<u64>0x01010101) << 32) | 0x01010101;

/** Whether one of eight bytes may be 0xFF. Never false if one is. */
function hasMarker(word: u64): bool {
  return ((~word - ONES) & word & (ONES << 7)) !== 0;
}

/**
 * Decodes a block to `BLOCK`, whose AC coefficients must be 0 before. The DC coefficient is stored both in the block and in `dc`.
 *
 * @param predicted - The DC coefficient of the previous block.
 * @returns How many coefficients there are in zigzag order, 1 if only the DC coefficient; or `BAD`.
 */
export function decodeBlock(dcTable: usize, acTable: usize, predicted: i32): i32 {
  let buffer = bits;
  let left = count;
  let from = at;
  const safe = end - 8;
  let k = 0;
  let table = dcTable;
  let reach = 1;
  while (k < 64) {
    if (left < 32) {
      let word: u64 = 0;
      if (from <= safe && !hasMarker((word = load<u64>(from)))) {
        buffer |= bswap<u64>(word) >> left;
        from += (63 - left) >> 3;
        left |= 56;
      } else {
        setAt(from);
        refillSlowly(buffer, left);
        buffer = bits;
        left = count;
        from = at;
      }
    }
    let entry = load<i32>(table + ((<usize>(buffer >> (64 - LOOK_BITS))) << 2));
    if (<u32>entry >= 0x10000) {
      // The shift uses only the lowest 6 bits of the entry, which are the length.
      buffer <<= <u64>entry;
      left -= entry & 63;
      k += (entry >> 8) & 15;
      store<i16>(BLOCK + <usize>load<u8>(ZIGZAG + k), <i16>(entry >> 16));
      reach = ++k;
      if (k >= 64) break;
      // 32 bits are enough for this entry and two more of its kind.
      entry = load<i32>(table + ((<usize>(buffer >> (64 - LOOK_BITS))) << 2));
      if (<u32>entry < 0x10000) continue;
      buffer <<= <u64>entry;
      left -= entry & 63;
      k += (entry >> 8) & 15;
      store<i16>(BLOCK + <usize>load<u8>(ZIGZAG + k), <i16>(entry >> 16));
      reach = ++k;
      if (k >= 64) break;
      entry = load<i32>(table + ((<usize>(buffer >> (64 - LOOK_BITS))) << 2));
      if (<u32>entry < 0x10000) continue;
      buffer <<= <u64>entry;
      left -= entry & 63;
      k += (entry >> 8) & 15;
      store<i16>(BLOCK + <usize>load<u8>(ZIGZAG + k), <i16>(entry >> 16));
      reach = ++k;
      continue;
    }
    if ((entry & 31) === 0) {
      entry = longEntry(table, <i32>(buffer >> 48));
      if (entry === 0) return BAD;
    }
    const length = entry & 31;
    const size = (entry >> 12) & 15;
    buffer <<= length;
    left -= length;
    if (k === 0) {
      if (size > MAX_DC_BITS) return BAD;
      dc = predicted + extended(buffer, size);
      if (dc > MAX_DC || dc < -MAX_DC) return BAD;
      store<i16>(BLOCK, <i16>dc);
      buffer <<= size;
      left -= size;
      table = acTable;
      k = 1;
      continue;
    }
    const run = (entry >> 8) & 15;
    if (size === 0) {
      if (run === 0) {
        setAt(from);
        setReader(buffer, left);
        return reach;
      }
      if (run !== 15) return BAD;
      k += 16;
      reach = k;
      continue;
    }
    if (size > MAX_AC_BITS) return BAD;
    k += run;
    store<i16>(BLOCK + <usize>load<u8>(ZIGZAG + k), <i16>extended(buffer, size));
    buffer <<= size;
    left -= size;
    reach = ++k;
  }
  setAt(from);
  setReader(buffer, left);
  return k === 64 ? 64 : BAD;
}
