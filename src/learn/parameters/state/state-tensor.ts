/** A tensor of a state dict. It stays in its file until you read it. */
import { widenBfloat16 } from '../../../onnx/tensor/bfloat16.js';
import { createData, elementCount, makeTensor, type Tensor } from '../../../onnx/tensor/tensor.js';
import { invalidState } from './state-file.js';
import { STORED_TYPES, type StoredType } from './stored-types.js';

/** A tensor in a file of weights. Its values are read when you ask for them. */
export interface StateTensor {
  /** The element type in the file. */
  readonly dtype: StoredType;
  /** Sizes, outermost first; `[]` is a scalar. */
  readonly dims: readonly number[];
  /**
   * Reads the values. bfloat16 becomes float32, exactly.
   *
   * @returns A new tensor in C order, which you own.
   * @throws {@link TapirError} `STATE_INVALID` if the data is damaged, or for a dtype that no tensor has (8-bit floats, complex64);
   * `MODEL_CHANGED` if the file has changed since it was opened.
   */
  read(): Promise<Tensor>;
  /**
   * Reads the values as the file stores them.
   *
   * @returns The little-endian bytes of the elements in C order: a new array, which you own.
   * @throws {@link TapirError} as {@link StateTensor.read}, for every dtype.
   */
  bytes(): Promise<Uint8Array>;
}

/** Where a tensor lies. */
export interface StoredTensor {
  readonly path: string;
  readonly key: string;
  readonly dtype: StoredType;
  readonly dims: readonly number[];
  /** Reads the elements in C order into a buffer of exactly their size. */
  readonly load: () => Promise<ArrayBuffer>;
}

export function stateTensor({ path, key, dtype, dims, load }: StoredTensor): StateTensor {
  const { tensor } = STORED_TYPES[dtype];
  return Object.freeze({
    dtype,
    dims: Object.freeze([...dims]),
    bytes: async () => new Uint8Array(await load()),
    read: async () => {
      if (tensor === undefined) {
        const reason = `its dtype ${dtype} cannot be read as a tensor; bytes() gives what the file stores`;
        throw invalidState(path, reason, { key });
      }
      const buffer = await load();
      if (dtype === 'bfloat16') return makeTensor('float32', [...dims], widenBfloat16(buffer));
      return makeTensor(tensor, [...dims], createData(tensor, elementCount(dims), buffer));
    },
  });
}
