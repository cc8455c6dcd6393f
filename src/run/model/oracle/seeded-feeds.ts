/** Makes inputs up from a seed, so that two forms of a model run on the same values. */
import { TapirError } from '../../../base/errors.js';
import { mixBits } from '../../../base/random.js';
import {
  createData,
  elementCount,
  isDType,
  makeTensor,
  type NamedTensor,
  type TensorData,
} from '../../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';

/** Makes feeds of the given dims, one per input. The same seed gives the same values on every machine. */
export function seededFeeds(
  inputs: readonly TensorInfo[],
  fed: readonly { readonly dims: readonly number[] }[],
  seed: number,
): NamedTensor[] {
  return inputs.map(({ name, dtype }, position) => {
    const type = dtype ?? 'float32';
    if (!isDType(type)) {
      throw new TapirError(
        'INPUT_MISMATCH',
        `input "${name}" is ${type}, for which no values can be made up`,
        { details: { input: name, expected: 'a dtype that onnxruntime-node can be fed', actual: type } },
      );
    }
    const { dims } = fed[position]!;
    const data = createData(type, elementCount(dims));
    fill(data, type, mixBits(seed) + position);
    return { name, ...makeTensor(type, dims, data) };
  });
}

const HALF_ONE = 0x3c00;

function fill(data: TensorData, dtype: string, seed: number): void {
  for (let i = 0; i < data.length; i++) {
    const bits = mixBits(Math.imul(seed, 0x9e3779b9) + i);
    const unit = bits / 2 ** 32;
    if (data instanceof Float32Array || data instanceof Float64Array) data[i] = 4 * unit - 2;
    // Halves of magnitude 1 to 2, with either sign.
    else if (dtype === 'float16') data[i] = HALF_ONE | (bits & 0x83ff);
    else if (dtype === 'bool') data[i] = bits & 1;
    // Integers are small, because they are usually indices or tokens.
    else if (data instanceof BigInt64Array || data instanceof BigUint64Array) data[i] = BigInt(bits % 2);
    else if (Array.isArray(data)) data[i] = `text ${bits % 10}`;
    else data[i] = dtype === 'uint8' ? bits & 0xff : bits % 2;
  }
}
