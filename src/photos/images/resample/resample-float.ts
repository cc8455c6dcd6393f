/**
 * torch's antialiased bilinear resize of float32 tensors, bit for bit as on x86 with AVX2 or AVX-512: two passes, the horizontal one
 * first, without rounding to bytes. Algorithm: torch, UpSampleKernel.cpp (BSD licence).
 */
import type { Region, Size } from '../pixels/geometry.js';
import type { RgbImage } from '../pixels/rgb-image.js';
import { visiblePart } from './resample-plan.js';
import type { Colour } from './resample.js';

const f32 = Math.fround;

/** The weights of an axis: which inputs each output position reads. */
interface FloatKernel {
  readonly first: Int32Array;
  readonly weights: readonly Float32Array[];
}

/**
 * Resizes an image and cuts a region from the result.
 *
 * @param values - The value of each byte, 256 floats.
 * @param fill - Colour where the region reaches beyond the image.
 * @returns `height × width × 3` floats of the region.
 */
export function resampleFloat(
  image: RgbImage,
  size: Size,
  region: Region,
  values: Float32Array,
  fill: Colour,
): Float32Array {
  const { left, top, right, bottom } = visiblePart(size, region);
  const columns = createFloatKernel(image.width, size.width, left, right);
  const rows = createFloatKernel(image.height, size.height, top, bottom);
  const source = new Float32Array(image.data.length);
  // Float32Array.from with a function takes 90 ms for a photo of 500×375, this loop 5 ms.
  for (let at = 0; at < source.length; at++) source[at] = values[image.data[at]!]!;
  const wide = (right - left) * 3;
  const firstRow = rows.first[0]!;
  const narrowed: Float32Array[] = [];
  for (let row = firstRow; row < rows.first.at(-1)! + rows.weights.at(-1)!.length; row++)
    narrowed.push(resampleRow(source.subarray(row * image.width * 3, (row + 1) * image.width * 3), columns));
  const result = new Float32Array(region.height * region.width * 3);
  for (let at = 0; at < result.length; at++) result[at] = values[fill[at % 3]!]!;
  for (let y = 0; y < bottom - top; y++) {
    const start = ((top - region.top + y) * region.width + left - region.left) * 3;
    addRows(narrowed, rows.first[y]! - firstRow, rows.weights[y]!, result.subarray(start, start + wide));
  }
  return result;
}

function createFloatKernel(inSize: number, outSize: number, from: number, to: number): FloatKernel {
  const first = new Int32Array(to - from);
  // A pass that changes nothing is left out.
  if (inSize === outSize)
    return { first: first.map((_, at) => from + at), weights: Array.from(first, () => Float32Array.of(1)) };
  const scale = f32(f32(inSize) / f32(outSize));
  const support = Math.max(scale, 1);
  const inverse = scale >= 1 ? f32(1 / scale) : 1;
  const weights = Array.from(first, (_, at) => {
    const center = f32(scale * (from + at + 0.5));
    const start = Math.max(0, Math.trunc(f32(center - support) + 0.5));
    const end = Math.min(inSize, Math.trunc(f32(center + support) + 0.5));
    first[at] = start;
    const own = new Float32Array(end - start);
    let sum = 0;
    for (let tap = 0; tap < own.length; tap++) {
      const distance = Math.abs(f32((f32(tap + start - center) + 0.5) * inverse));
      own[tap] = distance < 1 ? 1 - distance : 0;
      sum = f32(sum + own[tap]!);
    }
    return own.map((weight) => weight / sum);
  });
  return { first, weights };
}

/**
 * How many taps are added unfused, the first one included. torch's compiler takes the taps after the first by fours, unfused, and the
 * rest with fused multiply-add.
 */
function unfusedTaps(taps: number): number {
  return 1 + Math.trunc((taps - 1) / 4) * 4;
}

/** a · b + c, rounded once: doubles hold the product exactly. */
function fusedAdd(a: number, b: number, c: number): number {
  return f32(a * b + c);
}

function resampleRow(row: Float32Array, { first, weights }: FloatKernel): Float32Array {
  const result = new Float32Array(first.length * 3);
  for (let x = 0; x < first.length; x++) {
    const own = weights[x]!;
    const unfused = unfusedTaps(own.length);
    for (let channel = 0; channel < 3; channel++) {
      let at = first[x]! * 3 + channel;
      let sum = f32(row[at]! * own[0]!);
      for (let tap = 1; tap < own.length; tap++) {
        at += 3;
        sum = tap < unfused ? f32(sum + f32(row[at]! * own[tap]!)) : fusedAdd(row[at]!, own[tap]!, sum);
      }
      result[x * 3 + channel] = sum;
    }
  }
  return result;
}

/** Writes the weighted sum of the rows from `first` on. */
function addRows(
  rows: readonly Float32Array[],
  first: number,
  weights: Float32Array,
  into: Float32Array,
): void {
  const unfused = unfusedTaps(weights.length);
  const top = rows[first]!;
  for (let i = 0; i < into.length; i++) into[i] = top[i]! * weights[0]!;
  for (let tap = 1; tap < weights.length; tap++) {
    const row = rows[first + tap]!;
    const weight = weights[tap]!;
    if (tap < unfused) for (let i = 0; i < into.length; i++) into[i] = into[i]! + f32(row[i]! * weight);
    else for (let i = 0; i < into.length; i++) into[i] = fusedAdd(row[i]!, weight, into[i]!);
  }
}
