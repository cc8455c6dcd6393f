/** Rows of tensors along the first axis. */
import { elementCount, makeTensor, type Tensor, type TensorData } from './tensor.js';

/** Rows `start` to `start + count` of a tensor: a view of its data. */
export function takeRows(tensor: Tensor, start: number, count: number): Tensor {
  const [, ...inner] = tensor.dims;
  const rowElements = elementCount(inner);
  const from = start * rowElements;
  const to = from + count * rowElements;
  const data: TensorData = Array.isArray(tensor.data)
    ? tensor.data.slice(from, to)
    : tensor.data.subarray(from, to);
  return makeTensor(tensor.dtype, [count, ...inner], data);
}
