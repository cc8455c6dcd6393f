/** Inputs of the networks with exits. */
import type { Tensor } from 'onnx-tapir';
import { seededImages, uniformOf } from './exports.js';

/** Images of a formula, each scaled by a factor of its own. */
export function scaledImages(input: {
  readonly seed: string;
  readonly scale_seed: string;
  readonly shape: readonly number[];
}): Tensor<'float32'> {
  const { seed, scale_seed, shape } = input;
  const size = shape.slice(1).reduce((product, one) => product * one, 1);
  const scale = uniformOf(scale_seed);
  const data = seededImages(seed, shape).map(
    (value, i) => value * (0.3 + 1.4 * (scale(Math.floor(i / size)) + 0.5)),
  );
  return { dtype: 'float32', dims: [...shape], data };
}
