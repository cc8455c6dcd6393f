/**
 * torch's bilinear resampling without antialias, as torchvision applies it to uint8 images: in float32, rounded half to even at the end. The
 * sums are those of torch on one thread, as in the workers of its DataLoader; on several threads their last bit differs.
 * Algorithm: torch, UpSampleKernel.cpp, and torchvision, _functional_tensor.py (BSD licences).
 */
import type { Region, Size } from '../pixels/geometry.js';
import type { RgbImage } from '../pixels/rgb-image.js';
import { visiblePart } from './resample-plan.js';

/** Where the places of an axis lie: between two inputs, and the weight of the second. */
interface Places {
  readonly first: Int32Array;
  readonly second: Int32Array;
  readonly weight: Float32Array;
}

function placesOf(inSize: number, outSize: number, from: number, to: number): Places {
  const scale = Math.fround(inSize / outSize);
  const first = new Int32Array(to - from);
  const second = new Int32Array(to - from);
  const weight = new Float32Array(to - from);
  for (let k = 0; k < first.length; k++) {
    const place = Math.max(0, Math.fround(scale * (from + k + 0.5) - 0.5));
    first[k] = Math.min(Math.floor(place), inSize - 1);
    second[k] = Math.min(first[k]! + 1, inSize - 1);
    weight[k] = place - first[k]!;
  }
  return { first, second, weight };
}

/** Resizes an image and writes a region of the result, whose other pixels stay. */
export function resampleBilinear(image: RgbImage, size: Size, region: Region, into: Uint8Array): void {
  const { left, top, right, bottom } = visiblePart(size, region);
  const rows = placesOf(image.height, size.height, top, bottom);
  const columns = placesOf(image.width, size.width, left, right);
  const { data, width } = image;
  for (let y = top; y < bottom; y++) {
    const [upper, lower] = [rows.first[y - top]! * width, rows.second[y - top]! * width];
    const down = rows.weight[y - top]!;
    const up = Math.fround(1 - down);
    let at = ((y - region.top) * region.width + left - region.left) * 3;
    for (let k = 0; k < right - left; k++) {
      const [before, after] = [columns.first[k]!, columns.second[k]!];
      const across = columns.weight[k]!;
      const rest = Math.fround(1 - across);
      const upperBefore = Math.fround(up * rest);
      const upperAfter = Math.fround(up * across);
      const lowerBefore = Math.fround(down * rest);
      const lowerAfter = Math.fround(down * across);
      for (let channel = 0; channel < 3; channel++) {
        const part = (row: number, column: number): number => data[(row + column) * 3 + channel]!;
        let sum = Math.fround(part(upper, after) * upperAfter);
        sum = mulAdd(part(upper, before), upperBefore, sum);
        sum = mulAdd(part(lower, before), lowerBefore, sum);
        into[at++] = roundToEven(mulAdd(part(lower, after), lowerAfter, sum));
      }
    }
  }
}

/** a · b + c, rounded to float32 once, as torch's machine code computes it: the product of two such numbers is exact in float64. */
function mulAdd(a: number, b: number, c: number): number {
  return Math.fround(a * b + c);
}

function roundToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
