/** Rows of tensors: their parts along the first axis. */
import { invalidOption } from '../../base/checks.js';
import { encodeFloat16 } from './float16.js';
import { createData, elementCount, makeTensor, type Tensor, type TensorData } from './tensor.js';
import { floatsOf } from './widen.js';

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

/** Whether a mean of such numbers is such a number. */
export function hasMean(dtype: string): boolean {
  return /^(float|double)/.test(dtype);
}

/** The mean of each `count` rows: how the crops of a photo become one, as in torchvision's documentation; in memory of its own. Throws `OPTION_INVALID` for a tensor of other values than floats. */
export function meanOfRows(tensor: Tensor, count: number): Tensor {
  const { dtype, dims, data } = tensor;
  if (!hasMean(dtype)) throw invalidOption('cropRows', `"each" for an output of ${dtype}`, 'mean');
  const [rows, ...inner] = dims as readonly [number, ...number[]];
  const size = elementCount(inner);
  const values = data instanceof Float64Array ? data : floatsOf(tensor)!;
  const means = new Float64Array((rows / count) * size);
  for (let row = 0; row < rows; row++) {
    const into = Math.floor(row / count) * size;
    for (let i = 0; i < size; i++) means[into + i] = means[into + i]! + values[row * size + i]!;
  }
  for (let i = 0; i < means.length; i++) means[i] = means[i]! / count;
  const floats = data instanceof Float64Array ? means : new Float32Array(means);
  const stored = dtype === 'float16' ? encodeFloat16(floats as Float32Array) : floats;
  return makeTensor(dtype, [rows / count, ...inner], stored);
}
