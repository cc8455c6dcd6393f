/** The mean of rows of a tensor: how the crops of a photo become one, as in torchvision's documentation. */
import { invalidOption } from '../../base/checks.js';
import { encodeFloat16 } from './float16.js';
import { elementCount, makeTensor, type Tensor } from './tensor.js';
import { floatsOf } from './widen.js';

/** Whether a mean of such numbers is such a number. */
export function hasMean(dtype: string): boolean {
  return /^(float|double)/.test(dtype);
}

/** The mean of each `count` rows, in memory of its own. Throws `OPTION_INVALID` for a tensor of other values than floats. */
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
