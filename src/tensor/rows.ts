/** Rows of tensors: their parts along the first axis, as views. */
import { elementCount, makeTensor, type Tensor } from './tensor.js';

/** Rows `start` to `start + count` of a tensor: a view of its data. */
export function takeRows(tensor: Tensor, start: number, count: number): Tensor {
  const { dtype, dims, data } = tensor;
  const [, ...inner] = dims;
  const rowElements = elementCount(inner);
  const from = start * rowElements;
  const to = from + count * rowElements;
  return makeTensor(
    dtype,
    [count, ...inner],
    Array.isArray(data) ? data.slice(from, to) : data.subarray(from, to),
  );
}

/** One row without the first axis: a view of the tensor's data. */
export function takeRow(tensor: Tensor, row: number): Tensor {
  const { dtype, dims, data } = takeRows(tensor, row, 1);
  return makeTensor(dtype, dims.slice(1), data);
}
