/** Tensors with their axes in another order. */
import { createData, type DType, type Tensor, type TensorData } from './tensor.js';

/**
 * Reorders the axes of a tensor.
 *
 * @param order - Axis `i` of the result is axis `order[i]` of the tensor.
 * @returns A new tensor in C order.
 */
export function permute<Type extends DType>(
  tensor: Tensor<Type>,
  order: readonly number[],
): { readonly dims: readonly number[]; readonly data: Tensor<Type>['data'] } {
  const { dims, dtype } = tensor;
  const data = tensor.data as TensorData;
  const strides = dims.map((_, axis) => dims.slice(axis + 1).reduce((product, size) => product * size, 1));
  const sizes = order.map((axis) => dims[axis]!);
  const steps = order.map((axis) => strides[axis]!);
  const result = createData(dtype, data.length) as (typeof data)[number][];
  const index = sizes.map(() => 0);
  let from = 0;
  for (let to = 0; to < data.length; to++) {
    result[to] = data[from]!;
    for (let axis = sizes.length - 1; axis >= 0; axis--) {
      from += steps[axis]!;
      if (++index[axis]! < sizes[axis]!) break;
      from -= steps[axis]! * sizes[axis]!;
      index[axis] = 0;
    }
  }
  return { dims: sizes, data: result as unknown as Tensor<Type>['data'] };
}
