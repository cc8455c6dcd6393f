/**
 * The two passes of Pillow's 8-bit resampling on WebAssembly SIMD. AssemblyScript; `npm run wasm` builds it.
 * Algorithm: Pillow, src/libImaging/Resample.c (MIT-CMU licence).
 *
 * A weight has 22 bits and a sign, too many for the 16-bit products of `dot_i16x8`. It is stored as two signed 16-bit halves,
 * weight = high · 2^16 + low, and each half is summed separately. Dot products of 16-bit numbers with bytes are exact, sums wrap like
 * int32, and (high sum << 16) + low sum is the int32 sum of the plain products.
 *
 * Weights are stored in pairs, as one dot product needs them: (low of an even tap, low of the next odd tap), (high, high),
 * four times 16 bits. Every position has the same number of pairs; unused taps have weight 0. Their pixels are still read,
 * so the caller leaves room after pixels and rows.
 *
 * Nothing is allocated here: the caller passes every address.
 */

/** Half of what the last shift drops, for rounding. */
const HALF: i32 = 1 << 21;
const PRECISION_BITS: i32 = 22;

/** Combines the sums of four values and shifts them down; without clipping. */
function round(low: v128, high: v128): v128 {
  return i32x4.shr_s(i32x4.add(low, i32x4.shl(high, 16)), PRECISION_BITS);
}

/** The start value of four sums: half, for rounding. */
function half(): v128 {
  return i32x4.splat(HALF);
}

/** Two RGB pixels as 16-bit pairs of red, green and blue values; the last pair is 0. */
function pixelPair(at: usize): v128 {
  return i8x16.swizzle(v128.load64_zero(at), i8x16(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
}

/**
 * Horizontal pass, four rows at a time. Writes 4 bytes per pixel, of which the next pixel overwrites the last one; so it writes 1 byte beyond a row.
 *
 * @param source - Address of the first row; rows are `pitch` bytes apart.
 * @param rows - Number of rows, a multiple of 4.
 * @param offsets - For each output pixel, the offset of its first tap in a row (u32).
 * @param weights - For each output pixel, `pairs` times 8 bytes.
 * @param width - Output pixels per row.
 */
export function columns(
  source: usize,
  pitch: usize,
  rows: i32,
  offsets: usize,
  weights: usize,
  pairs: i32,
  width: i32,
  target: usize,
  targetPitch: usize,
): void {
  const offsetsEnd = offsets + ((<usize>width) << 2);
  for (let row = 0; row < rows; row += 4) {
    let to = target + <usize>row * targetPitch;
    const from = source + <usize>row * pitch;
    let weight = weights;
    for (let offset = offsets; offset < offsetsEnd; offset += 4) {
      let at0 = from + <usize>load<u32>(offset);
      let at1 = at0 + pitch;
      let at2 = at1 + pitch;
      let at3 = at2 + pitch;
      let low0 = half();
      let low1 = half();
      let low2 = half();
      let low3 = half();
      let high0 = i32x4.splat(0);
      let high1 = i32x4.splat(0);
      let high2 = i32x4.splat(0);
      let high3 = i32x4.splat(0);
      const weightEnd = weight + ((<usize>pairs) << 3);
      do {
        const low = v128.load32_splat(weight);
        const high = v128.load32_splat(weight, 4);
        const pixels0 = pixelPair(at0);
        low0 = i32x4.add(low0, i32x4.dot_i16x8_s(pixels0, low));
        high0 = i32x4.add(high0, i32x4.dot_i16x8_s(pixels0, high));
        const pixels1 = pixelPair(at1);
        low1 = i32x4.add(low1, i32x4.dot_i16x8_s(pixels1, low));
        high1 = i32x4.add(high1, i32x4.dot_i16x8_s(pixels1, high));
        const pixels2 = pixelPair(at2);
        low2 = i32x4.add(low2, i32x4.dot_i16x8_s(pixels2, low));
        high2 = i32x4.add(high2, i32x4.dot_i16x8_s(pixels2, high));
        const pixels3 = pixelPair(at3);
        low3 = i32x4.add(low3, i32x4.dot_i16x8_s(pixels3, low));
        high3 = i32x4.add(high3, i32x4.dot_i16x8_s(pixels3, high));
        at0 += 6;
        at1 += 6;
        at2 += 6;
        at3 += 6;
        weight += 8;
      } while (weight < weightEnd);
      const bytes = i8x16.narrow_i16x8_u(
        i16x8.narrow_i32x4_s(round(low0, high0), round(low1, high1)),
        i16x8.narrow_i32x4_s(round(low2, high2), round(low3, high3)),
      );
      const to1 = to + targetPitch;
      const to2 = to1 + targetPitch;
      v128.store_lane<u32>(to, bytes, 0);
      v128.store_lane<u32>(to1, bytes, 1);
      v128.store_lane<u32>(to2, bytes, 2);
      v128.store_lane<u32>(to2 + targetPitch, bytes, 3);
      to += 3;
    }
  }
}

/**
 * Vertical pass, 16 bytes at a time. Writes rows without gaps, and up to 15 bytes beyond the last one.
 *
 * @param source - Address of the first available row; rows are `pitch` bytes apart.
 * @param firstRow - Number of that row in the image.
 * @param firsts - For each output row, the number of the row with its first tap (u32).
 * @param weights - For each output row, `pairs` times 8 bytes.
 * @param height - Number of output rows.
 * @param bytes - Bytes per output row.
 */
export function rows(
  source: usize,
  pitch: usize,
  firstRow: u32,
  firsts: usize,
  weights: usize,
  pairs: i32,
  height: i32,
  bytes: usize,
  target: usize,
): void {
  const firstsEnd = firsts + ((<usize>height) << 2);
  const weightBytes = (<usize>pairs) << 3;
  for (; firsts < firstsEnd; firsts += 4) {
    const from = source + <usize>(load<u32>(firsts) - firstRow) * pitch;
    const weightsEnd = weights + weightBytes;
    for (let x: usize = 0; x < bytes; x += 16) {
      let low0 = half();
      let low1 = half();
      let low2 = half();
      let low3 = half();
      let high0 = i32x4.splat(0);
      let high1 = i32x4.splat(0);
      let high2 = i32x4.splat(0);
      let high3 = i32x4.splat(0);
      let even = from + x;
      let weight = weights;
      do {
        const odd = even + pitch;
        const above = v128.load(even);
        const below = v128.load(odd);
        const low = v128.load32_splat(weight);
        const high = v128.load32_splat(weight, 4);
        const left = i8x16.shuffle(above, below, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        const pairs0 = i16x8.extend_low_i8x16_u(left);
        low0 = i32x4.add(low0, i32x4.dot_i16x8_s(pairs0, low));
        high0 = i32x4.add(high0, i32x4.dot_i16x8_s(pairs0, high));
        const pairs1 = i16x8.extend_high_i8x16_u(left);
        low1 = i32x4.add(low1, i32x4.dot_i16x8_s(pairs1, low));
        high1 = i32x4.add(high1, i32x4.dot_i16x8_s(pairs1, high));
        const right = i8x16.shuffle(
          above,
          below,
          8,
          24,
          9,
          25,
          10,
          26,
          11,
          27,
          12,
          28,
          13,
          29,
          14,
          30,
          15,
          31,
        );
        const pairs2 = i16x8.extend_low_i8x16_u(right);
        low2 = i32x4.add(low2, i32x4.dot_i16x8_s(pairs2, low));
        high2 = i32x4.add(high2, i32x4.dot_i16x8_s(pairs2, high));
        const pairs3 = i16x8.extend_high_i8x16_u(right);
        low3 = i32x4.add(low3, i32x4.dot_i16x8_s(pairs3, low));
        high3 = i32x4.add(high3, i32x4.dot_i16x8_s(pairs3, high));
        even = odd + pitch;
        weight += 8;
      } while (weight < weightsEnd);
      v128.store(
        target + x,
        i8x16.narrow_i16x8_u(
          i16x8.narrow_i32x4_s(round(low0, high0), round(low1, high1)),
          i16x8.narrow_i32x4_s(round(low2, high2), round(low3, high3)),
        ),
      );
    }
    target += bytes;
    weights = weightsEnd;
  }
}
