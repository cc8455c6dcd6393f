/** NumPy's `.npy` files (format 1.0), written row by row. */
import { invalidOption } from '../../base/checks.js';
import type { DType, TensorData } from '../../tensor/tensor.js';
import type { AtomicFile } from '../../base/atomic-file.js';
import type { FeatureColumn } from '../../tensor/feature-column.js';
import type { FeatureWriter } from './feature-rows.js';

/** NumPy's descriptors; all written little-endian, as the machines that Node runs on are. */
export const NPY_DESCRIPTORS: Readonly<Partial<Record<DType, string>>> = {
  float32: '<f4',
  float64: '<f8',
  float16: '<f2',
  int8: '|i1',
  uint8: '|u1',
  int16: '<i2',
  uint16: '<u2',
  int32: '<i4',
  uint32: '<u4',
  int64: '<i8',
  uint64: '<u8',
  bool: '|b1',
};

/** Room for any header: it is written again when the number of rows is known. */
const HEADER_BYTES = 192;

/** The header of a file. Throws `OPTION_INVALID` for strings, which `.npy` stores with a fixed length only. */
export function encodeNpyHeader(dtype: DType, dims: readonly number[]): Uint8Array {
  const descriptor = NPY_DESCRIPTORS[dtype];
  if (descriptor === undefined)
    throw invalidOption('returnNodes', 'made of numeric outputs to write them as .npy', dtype);
  const shape = dims.length === 1 ? `(${dims[0]},)` : `(${dims.join(', ')})`;
  const text = `{'descr': '${descriptor}', 'fortran_order': False, 'shape': ${shape}, }`;
  const header = Buffer.alloc(HEADER_BYTES, ' ');
  header.write('\u0093NUMPY\u0001\u0000', 'latin1');
  header.writeUInt16LE(HEADER_BYTES - 10, 8);
  header.write(text, 10, 'latin1');
  header.write('\n', HEADER_BYTES - 1, 'latin1');
  return header;
}

/** A `.npy` file that grows row by row and appears under its name when it is complete. */
export class NpyWriter {
  readonly #file: AtomicFile;
  readonly #dtype: DType;
  readonly #rowDims: readonly number[];
  #rows = 0;

  constructor(file: AtomicFile, dtype: DType, rowDims: readonly number[]) {
    this.#file = file;
    this.#dtype = dtype;
    this.#rowDims = rowDims;
  }

  /** Begins rows of the given dtype and dims in a file that is open. */
  static async start(file: AtomicFile, dtype: DType, rowDims: readonly number[]): Promise<NpyWriter> {
    await file.append(encodeNpyHeader(dtype, [0, ...rowDims]));
    return new NpyWriter(file, dtype, rowDims);
  }

  /** Appends rows: their elements in C order. */
  async append(data: Exclude<TensorData, string[]>, rows: number): Promise<void> {
    await this.#file.append(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    this.#rows += rows;
  }

  /** Completes the file; returns its number of rows. */
  async finish(): Promise<number> {
    await this.#file.overwrite(0, encodeNpyHeader(this.#dtype, [this.#rows, ...this.#rowDims]));
    await this.#file.finish();
    return this.#rows;
  }

  /** Removes what was written. */
  discard(): Promise<void> {
    return this.#file.discard();
  }
}

/** A `.npy` file behind the interface of all formats; paths and row numbers are in the metadata only. */
export async function createNpyWriter(file: AtomicFile, column: FeatureColumn): Promise<FeatureWriter> {
  const writer = await NpyWriter.start(file, column.dtype, column.dims);
  return {
    append: ({ tensor }) => writer.append(tensor.data as Exclude<TensorData, string[]>, tensor.dims[0]!),
    finish: () => writer.finish(),
    discard: () => writer.discard(),
  };
}
