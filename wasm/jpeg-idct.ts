/**
 * The inverse DCT of libjpeg's "islow" method, bit for bit: Loeffler, Ligtenberg, Moschytz (1989), with 13-bit constants and two extra
 * bits between the passes. Every output is a sum of dot products of 16-bit numbers, which are exact.
 *
 * Builds of libjpeg-turbo differ in what overflows. `overflow` records whether any number comes near that; another decoder then reads the image.
 */
import { BLOCK, FACTORS, WORK } from './jpeg-state';

/** Not 0 in some lane once a number was too large. */
let overflow: v128 = i64x2.splat(0);

export function clearOverflow(): void {
  overflow = i64x2.splat(0);
}

export function hasOverflow(): bool {
  return v128.any_true(overflow);
}

function low(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
}

function high(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
}

function low32(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
}

function high32(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
}

function low64(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
}

function high64(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}

function low8(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

function high8(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/** Stores a pair of factors in memory: V8 loads it with one instruction, but needs four for a constant. */
function putFactors(at: usize, a: i16, b: i16): void {
  v128.store(FACTORS + at, i16x8(a, b, a, b, a, b, a, b));
}

/** Stores all pairs that `pass` uses; call it once before an image. */
export function putAllFactors(): void {
  putFactors(0, 11363, 9633);
  putFactors(16, 6437, 2260);
  putFactors(32, 2260, -6436);
  putFactors(48, 9633, -11363);
  putFactors(64, 9633, -2259);
  putFactors(80, -11362, -6436);
  putFactors(96, 6437, -11362);
  putFactors(112, 2261, 9633);
  putFactors(128, 8192, 8192);
  putFactors(144, 10703, 4433);
  putFactors(160, 8192, -8192);
  putFactors(176, 4433, -10704);
}

/** The dot products of pairs of numbers with the factors stored at `at`. */
function dot(pairs: v128, at: usize): v128 {
  return i32x4.dot_i16x8_s(pairs, v128.load(FACTORS + at));
}

function dots(pairs: v128, at: usize, others: v128, othersAt: usize): v128 {
  return i32x4.add(dot(pairs, at), dot(others, othersAt));
}

/** Adds half of what `shrink` drops to four sums, for rounding. */
function half<T>(sums: v128): v128 {
  return i32x4.add(sums, i32x4.splat(sizeof<T>() === 1 ? 1 << 17 : 1 << 10));
}

/** Shifts eight sums down to 16 bits: by 11 in the first pass (T = i16), by 18 in the second (T = i8). */
function shrink<T>(first: v128, second: v128): v128 {
  const shift = sizeof<T>() === 1 ? 18 : 11;
  return i16x8.narrow_i32x4_s(i32x4.shr_s(first, shift), i32x4.shr_s(second, shift));
}

/** Records numbers outside ±2^14 (first pass) or ±2^9 (second). */
function watch<T>(values: v128): void {
  const shift = sizeof<T>() === 1 ? 9 : 14;
  overflow = v128.or(overflow, i16x8.shr_s(v128.xor(values, i16x8.shr_s(values, 15)), shift));
}

/** One pass over eight columns: replaces the rows at `WORK` by their inverse DCT. */
function pass<T>(): void {
  const row0 = v128.load(WORK);
  const row1 = v128.load(WORK, 16);
  const row2 = v128.load(WORK, 32);
  const row3 = v128.load(WORK, 48);
  const row4 = v128.load(WORK, 64);
  const row5 = v128.load(WORK, 80);
  const row6 = v128.load(WORK, 96);
  const row7 = v128.load(WORK, 112);
  const low04 = low(row0, row4);
  const high04 = high(row0, row4);
  const low26 = low(row2, row6);
  const high26 = high(row2, row6);
  const low13 = low(row1, row3);
  const high13 = high(row1, row3);
  const low57 = low(row5, row7);
  const high57 = high(row5, row7);

  let even = half<T>(dot(low04, 128));
  let evenHigh = half<T>(dot(high04, 128));
  let other = dot(low26, 144);
  let otherHigh = dot(high26, 144);
  let odd = dots(low13, 0, low57, 16);
  let oddHigh = dots(high13, 0, high57, 16);
  let sum = i32x4.add(even, other);
  let sumHigh = i32x4.add(evenHigh, otherHigh);
  const out0 = shrink<T>(i32x4.add(sum, odd), i32x4.add(sumHigh, oddHigh));
  const out7 = shrink<T>(i32x4.sub(sum, odd), i32x4.sub(sumHigh, oddHigh));
  odd = dots(low13, 32, low57, 48);
  oddHigh = dots(high13, 32, high57, 48);
  sum = i32x4.sub(even, other);
  sumHigh = i32x4.sub(evenHigh, otherHigh);
  const out3 = shrink<T>(i32x4.add(sum, odd), i32x4.add(sumHigh, oddHigh));
  const out4 = shrink<T>(i32x4.sub(sum, odd), i32x4.sub(sumHigh, oddHigh));

  even = half<T>(dot(low04, 160));
  evenHigh = half<T>(dot(high04, 160));
  other = dot(low26, 176);
  otherHigh = dot(high26, 176);
  odd = dots(low13, 64, low57, 80);
  oddHigh = dots(high13, 64, high57, 80);
  sum = i32x4.add(even, other);
  sumHigh = i32x4.add(evenHigh, otherHigh);
  const out1 = shrink<T>(i32x4.add(sum, odd), i32x4.add(sumHigh, oddHigh));
  const out6 = shrink<T>(i32x4.sub(sum, odd), i32x4.sub(sumHigh, oddHigh));
  odd = dots(low13, 96, low57, 112);
  oddHigh = dots(high13, 96, high57, 112);
  sum = i32x4.sub(even, other);
  sumHigh = i32x4.sub(evenHigh, otherHigh);
  const out2 = shrink<T>(i32x4.add(sum, odd), i32x4.add(sumHigh, oddHigh));
  const out5 = shrink<T>(i32x4.sub(sum, odd), i32x4.sub(sumHigh, oddHigh));

  watch<T>(out0);
  watch<T>(out1);
  watch<T>(out2);
  watch<T>(out3);
  watch<T>(out4);
  watch<T>(out5);
  watch<T>(out6);
  watch<T>(out7);
  v128.store(WORK, out0);
  v128.store(WORK, out1, 16);
  v128.store(WORK, out2, 32);
  v128.store(WORK, out3, 48);
  v128.store(WORK, out4, 64);
  v128.store(WORK, out5, 80);
  v128.store(WORK, out6, 96);
  v128.store(WORK, out7, 112);
}

/** Swaps rows and columns. */
function transpose(): void {
  const row0 = v128.load(WORK);
  const row1 = v128.load(WORK, 16);
  const row2 = v128.load(WORK, 32);
  const row3 = v128.load(WORK, 48);
  const row4 = v128.load(WORK, 64);
  const row5 = v128.load(WORK, 80);
  const row6 = v128.load(WORK, 96);
  const row7 = v128.load(WORK, 112);
  const a0 = low(row0, row1);
  const a1 = high(row0, row1);
  const a2 = low(row2, row3);
  const a3 = high(row2, row3);
  const a4 = low(row4, row5);
  const a5 = high(row4, row5);
  const a6 = low(row6, row7);
  const a7 = high(row6, row7);
  const b0 = low32(a0, a2);
  const b1 = high32(a0, a2);
  const b2 = low32(a1, a3);
  const b3 = high32(a1, a3);
  const b4 = low32(a4, a6);
  const b5 = high32(a4, a6);
  const b6 = low32(a5, a7);
  const b7 = high32(a5, a7);
  v128.store(WORK, low64(b0, b4));
  v128.store(WORK, high64(b0, b4), 16);
  v128.store(WORK, low64(b1, b5), 32);
  v128.store(WORK, high64(b1, b5), 48);
  v128.store(WORK, low64(b2, b6), 64);
  v128.store(WORK, high64(b2, b6), 80);
  v128.store(WORK, low64(b3, b7), 96);
  v128.store(WORK, high64(b3, b7), 112);
}

/** Two columns of the result, shifted by 128 and clipped to bytes. */
function clipped(first: usize): v128 {
  const centre = i16x8.splat(128);
  return i8x16.narrow_i16x8_u(
    i16x8.add(v128.load(WORK + first), centre),
    i16x8.add(v128.load(WORK + first, 64), centre),
  );
}

/** Writes the columns as rows of 8 bytes of a plane. */
function putPixels(target: usize, pitch: usize): void {
  // Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7.
  const c04 = clipped(0);
  const c15 = clipped(16);
  const c26 = clipped(32);
  const c37 = clipped(48);
  const a02 = low8(c04, c26);
  const a46 = high8(c04, c26);
  const a13 = low8(c15, c37);
  const a57 = high8(c15, c37);
  const b0 = low8(a02, a13);
  const b1 = high8(a02, a13);
  const b4 = low8(a46, a57);
  const b5 = high8(a46, a57);
  const rows01 = low32(b0, b4);
  const rows23 = high32(b0, b4);
  const rows45 = low32(b1, b5);
  const rows67 = high32(b1, b5);
  v128.store64_lane(target, rows01, 0);
  v128.store64_lane(target + pitch, rows01, 1);
  target += pitch << 1;
  v128.store64_lane(target, rows23, 0);
  v128.store64_lane(target + pitch, rows23, 1);
  target += pitch << 1;
  v128.store64_lane(target, rows45, 0);
  v128.store64_lane(target + pitch, rows45, 1);
  target += pitch << 1;
  v128.store64_lane(target, rows67, 0);
  v128.store64_lane(target + pitch, rows67, 1);
}

/** Multiplies the coefficients by their table into `WORK`, and clears the block. Records products outside ±2^11. */
function dequantize(quant: usize): void {
  for (let row: usize = 0; row < 128; row += 16) {
    const coefficients = v128.load(BLOCK + row);
    const factors = v128.load(quant + row);
    overflow = v128.or(overflow, i16x8.q15mulr_sat_s(coefficients, i16x8.shl(factors, 3)));
    v128.store(WORK + row, i16x8.mul(coefficients, factors));
    v128.store(BLOCK + row, i64x2.splat(0));
  }
}

/** Transforms the block into 8 × 8 bytes of a plane, and clears it. */
export function transform(quant: usize, target: usize, pitch: usize): void {
  dequantize(quant);
  pass<i16>();
  transpose();
  pass<i8>();
  putPixels(target, pitch);
}

/** The same for a block with only a DC coefficient. */
export function transformFlat(quant: usize, first: i32, target: usize, pitch: usize): void {
  store<i16>(BLOCK, 0);
  const value = first * <i32>load<i16>(quant);
  // `transform` would record these.
  if (value > 2000 || value < -2000) overflow = i64x2.splat(-1);
  const level = i8x16.splat(<i8>min(255, max(0, ((value + 4) >> 3) + 128)));
  for (let row = 0; row < 8; row++) {
    v128.store64_lane(target, level, 0);
    target += pitch;
  }
}
