/** Inputs made up from a seed, to run two forms of a model on the same values. */
import { TapirError } from '../../base/errors.js';
import {
  createData,
  elementCount,
  isDType,
  makeTensor,
  type NamedTensor,
  type TensorData,
} from '../../tensor/tensor.js';
import type { TensorInfo } from '../../tensor/tensor-info.js';

/** Sizes for symbolic dims. */
export interface FeedSizes {
  /** Rows: the first axis, where it is not fixed. */
  readonly rows: number;
  /** How many times a first axis that is fixed. */
  readonly runs: number;
  /** Sizes by symbolic name. */
  readonly named: Readonly<Record<string, number>>;
}

/** The size for an open axis that is neither the batch nor a side of an image. */
const OPEN_SIZE = 8;
const OPEN_IMAGE_SIZE = 224;

/** Feeds for the given inputs; the same for the same seed, on every machine. */
export function seededFeeds(inputs: readonly TensorInfo[], seed: number, sizes: FeedSizes): NamedTensor[] {
  const named = nameSizes(inputs, sizes);
  return inputs.map((input, position) => {
    const { name, dtype } = input;
    const dims = (input.dims ?? [null]).map((size, axis, all) => {
      if (typeof size === 'number') return axis === 0 && all.length > 1 ? size * sizes.runs : size;
      return (size === null ? undefined : named.get(size)) ?? openSize(axis, all.length, sizes);
    });
    const type = dtype ?? 'float32';
    if (!isDType(type)) {
      throw new TapirError(
        'INPUT_MISMATCH',
        `input "${name}" is ${type}, for which no values can be made up`,
        {
          details: { input: name, expected: 'a dtype that onnxruntime-node can be fed', actual: type },
        },
      );
    }
    const data = createData(type, elementCount(dims));
    fill(data, type, mix(seed) + position);
    return { name, ...makeTensor(type, dims, data) };
  });
}

function openSize(axis: number, rank: number, { rows }: FeedSizes): number {
  if (axis === 0) return rows;
  return rank === 4 && axis >= 2 ? OPEN_IMAGE_SIZE : OPEN_SIZE;
}

/** One size for each symbolic name. A name that also stands on a later axis is not the batch. */
function nameSizes(inputs: readonly TensorInfo[], sizes: FeedSizes): Map<string, number> {
  const named = new Map(Object.entries(sizes.named));
  for (const isFirst of [false, true]) {
    for (const { dims } of inputs) {
      dims?.forEach((size, axis) => {
        if (typeof size === 'string' && (axis === 0) === isFirst && !named.has(size))
          named.set(size, openSize(axis, dims.length, sizes));
      });
    }
  }
  return named;
}

/** The finaliser of MurmurHash3 (Austin Appleby, public domain): a well-mixed 32-bit number per index. */
function mix(index: number): number {
  let h = index | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

const HALF_ONE = 0x3c00;

function fill(data: TensorData, dtype: string, seed: number): void {
  for (let i = 0; i < data.length; i++) {
    const bits = mix(Math.imul(seed, 0x9e3779b9) + i);
    const unit = bits / 2 ** 32;
    if (data instanceof Float32Array || data instanceof Float64Array) data[i] = 4 * unit - 2;
    // Halves from 1 to 2, with alternating sign.
    else if (dtype === 'float16') data[i] = HALF_ONE | (bits & 0x83ff);
    else if (dtype === 'bool') data[i] = bits & 1;
    // Integers are small, because they are mostly indices or tokens.
    else if (data instanceof BigInt64Array || data instanceof BigUint64Array) data[i] = BigInt(bits % 2);
    else if (Array.isArray(data)) data[i] = `text ${bits % 10}`;
    else data[i] = dtype === 'uint8' ? bits & 0xff : bits % 2;
  }
}
