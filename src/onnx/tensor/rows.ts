/** Rows of tensors: their parts along the first axis, as views. */
import { createData, elementCount, makeTensor, type Tensor, type TensorData } from './tensor.js';

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

/** The given rows of a tensor in new memory, in their order. */
export function selectRows({ dtype, dims, data }: Tensor, rows: readonly number[]): Tensor {
  const [, ...inner] = dims;
  const size = elementCount(inner);
  const selected = createData(dtype, rows.length * size);
  for (const [to, row] of rows.entries()) copyRow(data, row, selected, to, size);
  return makeTensor(dtype, [rows.length, ...inner], selected);
}

/** Copies a row of `size` elements to another place, in an array of the same dtype. */
export function copyRow(from: TensorData, row: number, to: TensorData, at: number, size: number): void {
  if (Array.isArray(to))
    to.splice(at * size, size, ...(from as string[]).slice(row * size, (row + 1) * size));
  else to.set((from as Float32Array).subarray(row * size, (row + 1) * size) as never, at * size);
}
