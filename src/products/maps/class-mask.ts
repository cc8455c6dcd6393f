/** Scores of classes per pixel → the class of every pixel of a photo. */
import type { Size } from '../../photos/images/pixels/geometry.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import { BilinearRows } from './bilinear.js';

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
  const bilinear = new BilinearRows([rows, columns], [height, width], 'half-pixel', Float32Array);
  const mask = new Uint8Array(height * width);
  const row = new Float64Array(width);
  const best = new Float32Array(width);
  for (let y = 0; y < height; y++) {
    best.fill(-Infinity);
    for (let one = 0; one < classes; one++) {
      bilinear.draw(scores.data, one * rows * columns, y, row, 0);
      for (let x = 0; x < width; x++) {
        if (row[x]! <= best[x]!) continue;
        best[x] = row[x]!;
        mask[y * width + x] = one;
      }
    }
  }
  return mask;
}

/** The colours of Pascal VOC: bits of the number, the lowest as the highest of red, green and blue in turn. */
export function classColour(index: number): readonly [number, number, number] {
  const colour: [number, number, number] = [0, 0, 0];
  for (let bit = 0; bit < 8; bit++)
    for (const channel of [0, 1, 2] as const)
      colour[channel] |= ((index >> (3 * bit + channel)) & 1) << (7 - bit);
  return colour;
}
