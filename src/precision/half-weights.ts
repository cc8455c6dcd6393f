/** Constants of a model in float16, with what the smaller range costs. */
import type { Value } from '../graph/graph.js';
import { constantTensor } from '../graph/precision/constants.js';
import { encodeFloat16InRange, type RangedFloat16 } from '../tensor/float16.js';
import type { ModelState } from '../model/open/model-state.js';
import { readInitializerBytes } from '../model/open/read-initializer.js';

/**
 * Reads a float32 constant and rounds it. The float32 elements are let go at once, so that one tensor of them is in memory at a time.
 *
 * @throws {@link TapirError} as {@link readInitializerBytes}.
 */
export async function readHalves(model: ModelState, value: Value): Promise<RangedFloat16> {
  const { buffer } = await readInitializerBytes(model, constantTensor(value)!);
  return encodeFloat16InRange(new Float32Array(buffer));
}

/**
 * Why a constant cannot be float16 where a node reads it; undefined if it can.
 *
 * @param isDivisor - The node divides by it (the variance of a norm), so that no element may lose its digits.
 */
export function whyNotHalf(
  { name }: Value,
  { overflows, zeros, subnormals, nonZeros, largest }: RangedFloat16,
  isDivisor: boolean,
): string | undefined {
  const lost = zeros + subnormals;
  if (overflows > 0)
    return `${overflows} of the values of "${name}" overflow above 65,504 (up to ${largest.toPrecision(3)})`;
  if (lost > 0 && lost === nonZeros)
    return `all values of "${name}" are too small for float16 (up to ${largest.toPrecision(3)})`;
  return isDivisor && lost > 0 ? `${lost} variances in "${name}" are too small for float16` : undefined;
}
