/** Outputs with one vector per image, and what is done with the vectors. */
import { floatsOf } from '../../../onnx/tensor/widen.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import type { ImageFeatures } from './image-batcher.js';

export interface VectorOutput {
  readonly key: string;
  readonly elements: number;
}

/** Lists the outputs with one vector of floats per image: `[D]`, or `[D, 1, 1]`. */
export function listVectorOutputs(sample: ImageFeatures): VectorOutput[] {
  return Object.entries(sample).flatMap(([key, { dtype, dims }]) => {
    const [elements, ...others] = dims;
    const isVector = elements !== undefined && others.every((size) => size === 1);
    return isVector && dtype.startsWith('float') ? [{ key, elements }] : [];
  });
}

/** The elements of an output with vectors, as float32 in new memory. */
export function toFloats(tensor: Tensor): Float32Array {
  // Listed outputs hold floats. Rows are views of the run's outputs, which other requests share.
  const floats = floatsOf(tensor)!;
  return floats === tensor.data ? floats.slice() : floats;
}
