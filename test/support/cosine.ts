/** The cosine of two tensors. */
import type { Tensor } from '../../src/onnx/tensor/tensor.js';

/** The least cosine of rows, in double precision: the first axis counts rows. */
export function cosineOf(a: Pick<Tensor, 'dims' | 'data'>, b: Pick<Tensor, 'dims' | 'data'>): number {
  const rows = a.dims[0] ?? 1;
  const length = a.data.length / rows;
  let least = 1;
  for (let row = 0; row < rows; row++) {
    let [ab, aa, bb] = [0, 0, 0];
    for (let i = row * length; i < (row + 1) * length; i++) {
      const [x, y] = [Number(a.data[i]), Number(b.data[i])];
      ab += x * y;
      aa += x * x;
      bb += y * y;
    }
    least = Math.min(least, ab / Math.sqrt(aa * bb));
  }
  return least;
}
