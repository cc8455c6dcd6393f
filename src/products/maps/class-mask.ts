/** Scores of classes per pixel → the class of every pixel of a photo. */
import type { Size } from '../../photos/images/pixels/geometry.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';

/** Most classes that a mask of bytes can tell apart. */
export const MOST_CLASSES = 256;

/**
 * The class with the highest score at every pixel: scores are enlarged bilinearly to the size (as with `align_corners=False`), and compared then.
 *
 * @param scores - `[1, classes, height, width]`, at most {@link MOST_CLASSES} classes.
 * @returns A byte per pixel, row by row; of equal scores, the first class.
 */
export function classMask(scores: Tensor<'float32'>, { height, width }: Size): Uint8Array {
  const [, classes, rows, columns] = scores.dims as [number, number, number, number];
  const { data } = scores;
  const plane = rows * columns;
  const down = placesOf(rows, height);
  const across = placesOf(columns, width);
  const mask = new Uint8Array(height * width);
  const line = new Float32Array(columns);
  const best = new Float32Array(width);
  for (let y = 0; y < height; y++) {
    const [upper, lower, share] = [down.first[y]! * columns, down.second[y]! * columns, down.share[y]!];
    best.fill(-Infinity);
    for (let one = 0; one < classes; one++) {
      for (let x = 0; x < columns; x++) {
        const at = one * plane + x;
        line[x] = data[at + upper]! * (1 - share) + data[at + lower]! * share;
      }
      for (let x = 0; x < width; x++) {
        const right = across.share[x]!;
        const score = line[across.first[x]!]! * (1 - right) + line[across.second[x]!]! * right;
        if (score <= best[x]!) continue;
        best[x] = score;
        mask[y * width + x] = one;
      }
    }
  }
  return mask;
}

/** For every place of a longer or shorter axis: the two inputs that it lies between, and the share of the second. */
function placesOf(
  length: number,
  out: number,
): { first: Int32Array; second: Int32Array; share: Float32Array } {
  const first = new Int32Array(out);
  const second = new Int32Array(out);
  const share = new Float32Array(out);
  for (let k = 0; k < out; k++) {
    const place = Math.max(0, ((k + 0.5) * length) / out - 0.5);
    first[k] = Math.min(Math.floor(place), length - 1);
    second[k] = Math.min(first[k]! + 1, length - 1);
    share[k] = place - first[k]!;
  }
  return { first, second, share };
}

/** The colours of Pascal VOC: bits of the number, the lowest as the highest of red, green and blue in turn. */
export function classColour(index: number): readonly [number, number, number] {
  const colour: [number, number, number] = [0, 0, 0];
  for (let bit = 0; bit < 8; bit++)
    for (const channel of [0, 1, 2] as const)
      colour[channel] |= ((index >> (3 * bit + channel)) & 1) << (7 - bit);
  return colour;
}
