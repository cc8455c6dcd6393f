/** Tensors with their axes in another order. */
import { bytesOf } from './bits.js';
import { gatherView } from './strided.js';
import {
  createData,
  elementBytes,
  elementCount,
  makeTensor,
  type DataByType,
  type DType,
  type Tensor,
} from './tensor.js';

/** Reorders the axes of a tensor of numbers, into a new one: axis `i` of the result is axis `order[i]`. Callers refuse strings earlier. */
export function permute<Type extends DType>(tensor: Tensor<Type>, order: readonly number[]): Tensor<Type> {
  const { dims, dtype } = tensor;
  const strides = dims.map((_, axis) => elementCount(dims.slice(axis + 1)));
  const view = {
    offset: 0,
    dims: order.map((axis) => dims[axis]!),
    strides: order.map((axis) => strides[axis]!),
  };
  const { buffer } = Uint8Array.from(bytesOf(tensor.data));
  const data = createData(dtype, elementCount(dims), gatherView(buffer, view, elementBytes(dtype)));
  return makeTensor(dtype as Type, view.dims, data as DataByType[Type]);
}
