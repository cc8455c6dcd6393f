/**
 * The fixed part of the memory while a JPEG is decoded, and the state of the bit reader. `src/photos/images/jpeg/jpeg-layout.ts` has the same
 * addresses; the caller lays out everything from its `FREE` on.
 */

/** For each position in the zigzag, the byte offset in a block (u8); 16 more point after the block. */
export const ZIGZAG: usize = 0;
/** For each component, 64 factors (i16), row by row. */
export const QUANT: usize = 128;
export const QUANT_BYTES: usize = 128;
/** The current block, 64 coefficients (i16), and room for what a run that is too long writes. */
export const BLOCK: usize = 512;
/** The block between the two passes of the inverse DCT. */
export const WORK: usize = 704;
/** The fields of each component, `COMPONENT_BYTES` apart; see `jpeg.ts`. */
export const COMPONENTS: usize = 896;
export const COMPONENT_BYTES: usize = 32;
/** Factors of the inverse DCT, 16 bytes each. */
export const FACTORS: usize = 1024;
/** A Huffman table is indexed by this many bits: 2^10 entries of 4 bytes, then 16 limits and 16 offsets (i32), then 256 symbols. */
export const LOOK_BITS: i32 = 10;
export const LIMITS: usize = 4 << 10;
export const OFFSETS: usize = LIMITS + 64;
export const SYMBOLS: usize = LIMITS + 128;

/** The next bits of the file, the highest first, and how many of them are valid. */
export let bits: u64 = 0;
export let count: i32 = 0;
/** How many of the valid bits are padding after the end of the data. */
export let fake: i32 = 0;
/** The next byte of the file in memory, and the end of the available bytes. */
export let at: usize = 0;
export let end: usize = 0;

export function setReader(newBits: u64, newCount: i32): void {
  bits = newBits;
  count = newCount;
}

export function setInput(newAt: usize, newEnd: usize): void {
  at = newAt;
  end = newEnd;
}

export function setAt(newAt: usize): void {
  at = newAt;
}

/** Starts reading after a marker. */
export function resetReader(): void {
  bits = 0;
  count = 0;
  fake = 0;
}

/**
 * Fills the buffer byte by byte, for places where a byte of 0xFF may be near; skips a 0 stuffed after one. At a marker or the end
 * it adds zero bits, and counts them.
 */
export function refillSlowly(newBits: u64, newCount: i32): void {
  // The bits below the valid ones may be from the next bytes.
  let filled = newCount === 0 ? 0 : newBits & (~(<u64>0) << (64 - newCount));
  while (newCount <= 56) {
    let byte: u64 = 0;
    if (at >= end) {
      fake += 8;
    } else {
      byte = load<u8>(at);
      if (byte !== 0xff) {
        at++;
      } else if (at + 1 < end && load<u8>(at, 1) === 0) {
        at += 2;
      } else {
        byte = 0;
        fake += 8;
      }
    }
    filled |= byte << (56 - newCount);
    newCount += 8;
  }
  bits = filled;
  count = newCount;
}
