/** The resampling in JavaScript, for processes without WebAssembly SIMD. `resample-simd.ts` is tested against it. */
import { copyRows, type RgbImage } from '../pixels/rgb-image.js';
import { PRECISION_BITS, type Kernel } from './kernel.js';
import type { ResamplePlan } from './resample-plan.js';

/** A local copy: V8 takes twice the time if the inner loop reads an import. */
const BITS = PRECISION_BITS;
const HALF = 1 << (BITS - 1);

/** A sum of weighted bytes, with 22 fractional bits, as a byte. */
function toByte(sum: number): number {
  const value = sum >> BITS;
  return value < 0 ? 0 : value > 255 ? 255 : value;
}

/** Executes a plan. Bytes of `into` outside the plan stay unchanged. */
export function resampleInJs(image: RgbImage, plan: ResamplePlan, into: Uint8Array): void {
  const { rows, columns } = plan;
  const source = columns ? resampleColumns(image, plan, columns) : image.data;
  const first = columns
    ? { offset: 0, pitch: plan.width * 3 }
    : { offset: (plan.firstRow * image.width + plan.firstColumn) * 3, pitch: image.width * 3 };
  const from = { data: source, ...first };
  if (rows) resampleRows(from, plan, rows, into);
  else copyRows(from, { data: into, offset: plan.offset, pitch: plan.pitch }, plan.height, plan.width * 3);
}

function resampleColumns(image: RgbImage, plan: ResamplePlan, columns: Kernel): Uint8Array {
  const { first, counts, weights, stride } = columns;
  const { data } = image;
  const { firstRow, lastRow, width } = plan;
  const out = new Uint8Array((lastRow - firstRow) * width * 3);
  let at = 0;
  for (let row = firstRow; row < lastRow; row++) {
    const rowStart = row * image.width * 3;
    for (let x = 0; x < width; x++) {
      let from = rowStart + first[x]! * 3;
      let red = HALF;
      let green = HALF;
      let blue = HALF;
      const end = x * stride + counts[x]!;
      for (let k = x * stride; k < end; k++) {
        const weight = weights[k]!;
        red = (red + data[from]! * weight) | 0;
        green = (green + data[from + 1]! * weight) | 0;
        blue = (blue + data[from + 2]! * weight) | 0;
        from += 3;
      }
      out[at++] = toByte(red);
      out[at++] = toByte(green);
      out[at++] = toByte(blue);
    }
  }
  return out;
}

/** `from` starts at the plan's first row. */
function resampleRows(
  from: { readonly data: Uint8Array; readonly offset: number; readonly pitch: number },
  plan: ResamplePlan,
  rows: Kernel,
  into: Uint8Array,
): void {
  const { first, counts, weights, stride } = rows;
  const { data } = from;
  const bytes = plan.width * 3;
  const sums = new Int32Array(bytes);
  for (let y = 0; y < plan.height; y++) {
    sums.fill(HALF);
    for (let k = 0; k < counts[y]!; k++) {
      const weight = weights[y * stride + k]!;
      const start = from.offset + (first[y]! - plan.firstRow + k) * from.pitch;
      for (let i = 0; i < bytes; i++) sums[i] = sums[i]! + data[start + i]! * weight;
    }
    const at = plan.offset + y * plan.pitch;
    for (let i = 0; i < bytes; i++) into[at + i] = toByte(sums[i]!);
  }
}
