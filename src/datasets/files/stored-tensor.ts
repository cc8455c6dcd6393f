/** Features with the element type that they are stored with. */
import { encodeFloat16 } from '../../tensor/float16.js';
import type { DType, Tensor } from '../../tensor/tensor.js';

/** Returns the element type that features have on disk or in rows. */
export function storedType(dtype: DType, half: boolean): DType {
  return half && dtype === 'float32' ? 'float16' : dtype;
}

/** Converts a feature to that type. Returns the same tensor if it has the type already. */
export function storedTensor(tensor: Tensor, half: boolean): Tensor {
  if (storedType(tensor.dtype, half) === tensor.dtype) return tensor;
  return { dtype: 'float16', dims: tensor.dims, data: encodeFloat16(tensor.data as Float32Array) };
}
