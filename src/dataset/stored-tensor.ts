/** Features as they are written. */
import { encodeFloat16 } from '../tensor/float16.js';
import type { DType, Tensor } from '../tensor/tensor.js';

/** The element type of features on disk or in rows. */
export function storedType(dtype: DType, half: boolean): DType {
  return half && dtype === 'float32' ? 'float16' : dtype;
}

/** A feature with that type; itself if it has it. */
export function storedTensor(tensor: Tensor, half: boolean): Tensor {
  if (storedType(tensor.dtype, half) === tensor.dtype) return tensor;
  return { dtype: 'float16', dims: tensor.dims, data: encodeFloat16(tensor.data as Float32Array) };
}
