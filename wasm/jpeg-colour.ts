/**
 * Planes → RGB, bit for bit as libjpeg-turbo does it: "fancy" upsampling (a triangle filter) of chroma stored at half the width or at half of both
 * sides, then YCbCr → RGB in 16-bit fixed point.
 */

/** Kinds of chroma planes: no chroma, full size, and half of both sides; 2 is half the width. */
const GREY: i32 = 0;
const FULL: i32 = 1;
const HALF_BOTH: i32 = 3;

/** Mixes a row of chroma 3 : 1 with its neighbour, or copies it, as 16-bit numbers; repeats the first and the last one at the ends. */
function weighRows(near: usize, far: usize, isBoth: bool, samples: i32, line: usize): void {
  const lineEnd = line + ((<usize>samples) << 1);
  for (let to = line; to < lineEnd; to += 16) {
    let sums = v128.load8x8_u(near);
    if (isBoth) {
      sums = i16x8.add(i16x8.add(sums, i16x8.shl(sums, 1)), v128.load8x8_u(far));
    }
    v128.store(to, sums);
    near += 8;
    far += 8;
  }
  store<u16>(line - 2, load<u16>(line));
  store<u16>(lineEnd, load<u16>(lineEnd - 2));
}

/** Makes sixteen samples of eight: three quarters of each and one quarter of its neighbour. */
function widened(line: usize, isBoth: bool): v128 {
  const near = v128.load(line);
  const triple = i16x8.add(near, i16x8.shl(near, 1));
  let even = i16x8.add(triple, v128.load(line - 2));
  let odd = i16x8.add(triple, v128.load(line, 2));
  if (isBoth) {
    even = i16x8.shr_u(i16x8.add(even, i16x8.splat(8)), 4);
    odd = i16x8.shr_u(i16x8.add(odd, i16x8.splat(7)), 4);
  } else {
    even = i16x8.shr_u(i16x8.add(even, i16x8.splat(1)), 2);
    odd = i16x8.shr_u(i16x8.add(odd, i16x8.splat(2)), 2);
  }
  return v128.or(even, i16x8.shl(odd, 8));
}

/** Writes 16 pixels: 48 bytes. */
function putPixels(red: v128, green: v128, blue: v128, target: usize): void {
  // Interleaves red and green, then fills blue into the gaps.
  const a = i8x16.shuffle(red, green, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5);
  const b = i8x16.shuffle(red, green, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26);
  const c = i8x16.shuffle(red, green, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0);
  v128.store(target, i8x16.shuffle(a, blue, 0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15));
  v128.store(target, i8x16.shuffle(b, blue, 0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15), 16);
  v128.store(target, i8x16.shuffle(c, blue, 26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31), 32);
}

/** −0.34414 · Cb − 0.71414 · Cr of eight samples, rounded. 0.71414 = 1 − 0.28586 keeps both factors within 16 bits. */
function greenOf(pairs: v128, others: v128, cr: v128): v128 {
  const factors = i16x8(-22554, 18734, -22554, 18734, -22554, 18734, -22554, 18734);
  const half = i32x4.splat(32768);
  const first = i32x4.shr_s(i32x4.add(i32x4.dot_i16x8_s(pairs, factors), half), 16);
  const second = i32x4.shr_s(i32x4.add(i32x4.dot_i16x8_s(others, factors), half), 16);
  return i16x8.sub(i16x8.narrow_i32x4_s(first, second), cr);
}

/**
 * Sixteen pixels to RGB. The factors for red (1.402) and blue (1.772) have 15 bits instead of 16, the latter rounded. All 256 values
 * give the same result (`test/photos/images/jpeg/jpeg.test.ts`).
 */
function convert(y: v128, cbBytes: v128, crBytes: v128, target: usize): void {
  const centre = i16x8.splat(128);
  const yLow = i16x8.extend_low_i8x16_u(y);
  const yHigh = i16x8.extend_high_i8x16_u(y);
  const cbLow = i16x8.sub(i16x8.extend_low_i8x16_u(cbBytes), centre);
  const cbHigh = i16x8.sub(i16x8.extend_high_i8x16_u(cbBytes), centre);
  const crLow = i16x8.sub(i16x8.extend_low_i8x16_u(crBytes), centre);
  const crHigh = i16x8.sub(i16x8.extend_high_i8x16_u(crBytes), centre);
  const redFactor = i16x8.splat(22970);
  const red = i8x16.narrow_i16x8_u(
    i16x8.add(yLow, i16x8.q15mulr_sat_s(i16x8.shl(crLow, 1), redFactor)),
    i16x8.add(yHigh, i16x8.q15mulr_sat_s(i16x8.shl(crHigh, 1), redFactor)),
  );
  const blueFactor = i16x8.splat(29033);
  const blue = i8x16.narrow_i16x8_u(
    i16x8.add(yLow, i16x8.q15mulr_sat_s(i16x8.shl(cbLow, 1), blueFactor)),
    i16x8.add(yHigh, i16x8.q15mulr_sat_s(i16x8.shl(cbHigh, 1), blueFactor)),
  );
  const greenLow = greenOf(
    i8x16.shuffle(cbLow, crLow, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23),
    i8x16.shuffle(cbLow, crLow, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31),
    crLow,
  );
  const greenHigh = greenOf(
    i8x16.shuffle(cbHigh, crHigh, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23),
    i8x16.shuffle(cbHigh, crHigh, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31),
    crHigh,
  );
  const green = i8x16.narrow_i16x8_u(i16x8.add(yLow, greenLow), i16x8.add(yHigh, greenHigh));
  putPixels(red, green, blue, target);
}

/**
 * Writes rows of RGB without gaps, and up to 45 bytes beyond the last row. Row 0 is the first row of the current row of MCUs; kept rows have
 * negative numbers.
 *
 * @param kind - One of the constants above, or 2.
 * @param luma - Address of row 0; rows are `pitch` bytes apart.
 * @param blue - Address of row 0 of Cb; rows are `chromaPitch` bytes apart. `red` is the same for Cr.
 * @param lines - Room for two lines of 16-bit samples, with 16 bytes before and after each.
 * @param samples - Chroma samples per row.
 * @param firstChroma - The first available row of chroma, and `lastChroma` the last one; they are repeated beyond.
 */
export function upsample(
  kind: i32,
  luma: usize,
  pitch: usize,
  blue: usize,
  red: usize,
  chromaPitch: i32,
  lines: usize,
  samples: i32,
  firstChroma: i32,
  lastChroma: i32,
  firstRow: i32,
  lastRow: i32,
  width: i32,
  target: usize,
): void {
  const isBoth = kind === HALF_BOTH;
  const redLine = lines + ((<usize>((samples + 7) & ~7)) << 1) + 32;
  for (let row = firstRow; row <= lastRow; row++) {
    const near = isBoth ? row >> 1 : row;
    let blueAt = blue + near * chromaPitch;
    let redAt = red + near * chromaPitch;
    if (kind > FULL) {
      const neighbour = row & 1 ? near + 1 : near - 1;
      const far = max(firstChroma, min(lastChroma, neighbour));
      weighRows(blueAt, blue + far * chromaPitch, isBoth, samples, lines);
      weighRows(redAt, red + far * chromaPitch, isBoth, samples, redLine);
      blueAt = lines;
      redAt = redLine;
    }
    let from = luma + row * <i32>pitch;
    let to = target;
    for (let x = 0; x < width; x += 16) {
      const y = v128.load(from);
      if (kind === GREY) putPixels(y, y, y, to);
      else if (kind === FULL) convert(y, v128.load(blueAt), v128.load(redAt), to);
      else convert(y, widened(blueAt, isBoth), widened(redAt, isBoth), to);
      from += 16;
      blueAt += 16;
      redAt += 16;
      to += 48;
    }
    target += <usize>width * 3;
  }
}
