/** Rows of tensors along the first axis: taking some, joining several. */
import { TapirError } from '../errors.js';
import { createData, elementCount, type Tensor, type TensorData } from './tensor.js';

/** Rows `start` to `start + count` of a tensor: a view of its data. */
export function takeRows(tensor: Tensor, start: number, count: number): Tensor {
  const [, ...inner] = tensor.dims;
  const rowElements = elementCount(inner);
  const from = start * rowElements;
  const to = from + count * rowElements;
  const data: TensorData = Array.isArray(tensor.data)
    ? tensor.data.slice(from, to)
    : tensor.data.subarray(from, to);
  return { dtype: tensor.dtype, dims: [count, ...inner], data };
}

/**
 * Joins tensors along the first axis into a new one.
 *
 * @throws {@link TapirError} `INTERNAL` if they have no such axis or differ in another one.
 */
export function joinRows(parts: readonly Tensor[]): Tensor {
  const first = parts[0];
  if (!first || parts.some((part) => !fits(first, part))) {
    const reason = `outputs of dims ${parts.map((part) => `[${part.dims.join(', ')}]`).join(', ')} cannot be joined`;
    throw new TapirError('INTERNAL', reason, { details: { reason } });
  }
  if (parts.length === 1) return first;
  const rows = parts.reduce((sum, part) => sum + part.dims[0]!, 0);
  const dims = [rows, ...first.dims.slice(1)];
  const data = createData(first.dtype, elementCount(dims));
  let at = 0;
  for (const part of parts) {
    if (Array.isArray(data)) part.data.forEach((item, i) => (data[at + i] = item as string));
    // Same dtype, so the same kind of array; the union of all pairs is beyond the type checker.
    else (data as Float32Array).set(part.data as Float32Array, at);
    at += part.data.length;
  }
  return { dtype: first.dtype, dims, data };
}

function fits(first: Tensor, part: Tensor): boolean {
  return (
    part.dtype === first.dtype &&
    part.dims.length === first.dims.length &&
    part.dims.length > 0 &&
    part.dims.every((size, axis) => axis === 0 || size === first.dims[axis])
  );
}
