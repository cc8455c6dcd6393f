/** Values as the file of a model wants them. */
import { ELEMENT_TYPE, elementTypeName, isFloatType } from '../../../onnx/file/wire/schema.js';
import { encodeBfloat16 } from '../../../onnx/tensor/bfloat16.js';
import { bytesOf } from '../../../onnx/tensor/bits.js';
import { encodeFloat16, fromFloat16Bits } from '../../../onnx/tensor/float16.js';
import { permute } from '../../../onnx/tensor/permute.js';
import { makeTensor, type Tensor } from '../../../onnx/tensor/tensor.js';

const FLOATS = new Set(['float32', 'float64', 'float16', 'bfloat16']);

/** Whether values of a stored type can be put into a tensor of an element type. */
export function fitsType(dtype: string, elemType: number): boolean {
  return isFloatType(elemType) ? FLOATS.has(dtype) : dtype === elementTypeName(elemType);
}

/** Values as float64. */
export function toFloat64(tensor: Tensor): Float64Array {
  if (tensor.dtype === 'float16') return Float64Array.from(tensor.data, fromFloat16Bits);
  return Float64Array.from(tensor.data as Float32Array);
}

/** The elements of a tensor as bytes of an element type, with their axes reordered. */
export function encodeValues(tensor: Tensor, elemType: number, perm: readonly number[] | null): Uint8Array {
  const { dims, data } = perm ? permute(tensor, perm) : tensor;
  const laid = makeTensor(tensor.dtype, dims, data as never);
  if (!isFloatType(elemType) || tensor.dtype === elementTypeName(elemType)) return bytesOf(laid.data);
  if (elemType === ELEMENT_TYPE.float64) return bytesOf(toFloat64(laid));
  const floats = laid.dtype === 'float32' ? laid.data : Float32Array.from(toFloat64(laid));
  if (elemType === ELEMENT_TYPE.float16) return bytesOf(encodeFloat16(floats));
  if (elemType === ELEMENT_TYPE.bfloat16) return bytesOf(encodeBfloat16(floats));
  return bytesOf(floats);
}
