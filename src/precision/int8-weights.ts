/** Constant matrices of a model in 8 bits. */
import type { ConstantMatrix } from '../graph/precision/products.js';
import type { Int8Matrix } from '../graph/precision/with-int8.js';
import type { ModelState } from '../model/open/model-state.js';
import { readInitializerBytes } from '../model/open/read-initializer.js';

const LEVELS = 127;

/**
 * Reads a float32 matrix and rounds it to 8 bits, with a scale per column: its largest magnitude is 127. The float32 elements are let
 * go at once.
 *
 * @returns Undefined if an element is not finite.
 * @throws {@link TapirError} as {@link readInitializerBytes}.
 */
export async function readInt8(
  model: ModelState,
  { tensor, isTransposed, rows, columns }: ConstantMatrix,
): Promise<Int8Matrix | undefined> {
  const { buffer } = await readInitializerBytes(model, tensor);
  const floats = new Float32Array(buffer);
  // The distance between neighbours in a row, and in a column.
  const [across, down] = isTransposed ? [rows, 1] : [1, columns];
  const scales = new Float32Array(columns);
  for (let row = 0; row < rows; row++)
    for (let column = 0, at = row * down; column < columns; column++, at += across) {
      const magnitude = Math.abs(floats[at]!);
      if (!Number.isFinite(magnitude)) return undefined;
      if (magnitude > scales[column]!) scales[column] = magnitude;
    }
  // As float32 holds them: a column of tiny values has scale 0, and becomes 0.
  for (let column = 0; column < columns; column++) scales[column]! /= LEVELS;
  const values = new Int8Array(rows * columns);
  for (let row = 0, to = 0; row < rows; row++)
    for (let column = 0, at = row * down; column < columns; column++, at += across, to++)
      if (scales[column] !== 0) values[to] = clip(roundToEven(floats[at]! / scales[column]!));
  return { values, scales };
}

function clip(level: number): number {
  return Math.max(-LEVELS, Math.min(LEVELS, level));
}

/** Rounds as ONNX's QuantizeLinear does: halves go to the even neighbour. */
function roundToEven(x: number): number {
  const below = Math.floor(x);
  const rest = x - below;
  if (rest !== 0.5) return Math.round(x);
  return below % 2 === 0 ? below : below + 1;
}
