/** Normalisation of pixels on WebAssembly SIMD. AssemblyScript; `npm run wasm` builds it. */

/** (byte/255 − mean)/std, with each step rounded to float32 as in torchvision: IEEE 754 rounds divisions exactly. */
function normalized(bytes: v128, mean: v128, std: v128): v128 {
  const share = f32x4.div(f32x4.convert_i32x4_u(bytes), f32x4.splat(255));
  return f32x4.div(f32x4.sub(share, mean), std);
}

/**
 * RGB pixels → three planes of float32, four pixels at a time. Reads 4 bytes beyond the last pixel.
 *
 * @param pixels - Number of pixels, a multiple of 4.
 * @param plane - Distance of the planes in bytes.
 */
export function normalize(
  source: usize,
  pixels: i32,
  target: usize,
  plane: usize,
  meanRed: f32,
  meanGreen: f32,
  meanBlue: f32,
  stdRed: f32,
  stdGreen: f32,
  stdBlue: f32,
): void {
  const redMean = f32x4.splat(meanRed);
  const greenMean = f32x4.splat(meanGreen);
  const blueMean = f32x4.splat(meanBlue);
  const redStd = f32x4.splat(stdRed);
  const greenStd = f32x4.splat(stdGreen);
  const blueStd = f32x4.splat(stdBlue);
  const end = source + <usize>pixels * 3;
  for (; source < end; source += 12) {
    const four = v128.load(source);
    // Red is bytes 0, 3, 6 and 9, as 32-bit numbers; green and blue follow.
    const red = i8x16.swizzle(four, i8x16(0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9, -1, -1, -1));
    const green = i8x16.swizzle(four, i8x16(1, -1, -1, -1, 4, -1, -1, -1, 7, -1, -1, -1, 10, -1, -1, -1));
    const blue = i8x16.swizzle(four, i8x16(2, -1, -1, -1, 5, -1, -1, -1, 8, -1, -1, -1, 11, -1, -1, -1));
    v128.store(target, normalized(red, redMean, redStd));
    v128.store(target + plane, normalized(green, greenMean, greenStd));
    v128.store(target + 2 * plane, normalized(blue, blueMean, blueStd));
    target += 16;
  }
}
