/** Features as calls return and datasets hold them: without trailing axes of size 1, and cut to the first elements if that is asked for. */
import { invalidOption } from '../../base/checks.js';
import { encodeFloat16 } from '../../onnx/tensor/float16.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import { unitVector } from '../../onnx/tensor/vectors/unit-vector.js';
import { floatsOf } from '../../onnx/tensor/widen.js';

/** The options of embedding that say so. */
interface Written {
  readonly keepDims: boolean;
  readonly dims: number | undefined;
}

/** The features of an output, with the batch axis. Throws `OPTION_INVALID` for an output that `dims` cannot cut. */
export function writtenFeatures(key: string, tensor: Tensor, options: Written): Tensor {
  const { dtype, data } = options.dims === undefined ? tensor : cutVectors(key, tensor, options.dims);
  return { dtype, dims: writtenDims(tensor.dims, options), data } as Tensor;
}

/** The dims that are returned and written: `[N, C, 1, 1]` and `[N, C, 1, 1, 1]` become `[N, C]`, unless `keepDims` is set. */
export function writtenDims<Size>(
  dims: readonly Size[],
  { keepDims, dims: cut }: Written,
): readonly (Size | number)[] {
  const isVector = dims.length >= 4 && dims.length <= 5 && dims.slice(2).every((size) => size === 1);
  const written = isVector && !keepDims ? dims.slice(0, 2) : dims;
  return cut === undefined ? written : written.map((size, axis) => (axis === 1 ? cut : size));
}

/** Refuses an output that holds no vectors of floats, or shorter ones. Sizes that are no numbers are open. */
export function checkCut(
  key: string,
  { dtype, dims }: { readonly dtype: string | null; readonly dims: readonly unknown[] | null },
  cut: number,
): void {
  const [, elements, ...others] = dims ?? [];
  const fits =
    (dims === null || dims.length >= 2) &&
    (typeof elements !== 'number' || elements >= cut) &&
    others.every((size) => typeof size !== 'number' || size === 1) &&
    (dtype === null || dtype === 'float32' || dtype === 'float16');
  if (fits) return;
  const shown = `[${dims?.slice(1).join(', ')}] ${dtype}`;
  throw invalidOption(
    'dims',
    `at most the length of each output, whose rows are vectors of floats ("${key}" has ${shown})`,
    cut,
  );
}

function cutVectors(key: string, tensor: Tensor, cut: number): Pick<Tensor, 'dtype' | 'data'> {
  checkCut(key, tensor, cut);
  const [rows = 0, elements = 0] = tensor.dims;
  const floats = floatsOf(tensor)!;
  const data = new Float32Array(rows * cut);
  for (let row = 0; row < rows; row++)
    unitVector(
      floats.subarray(row * elements, row * elements + cut),
      0,
      data.subarray(row * cut, (row + 1) * cut),
    );
  return tensor.dtype === 'float16'
    ? { dtype: 'float16', data: encodeFloat16(data) }
    : { dtype: 'float32', data };
}
