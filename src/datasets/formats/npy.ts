/** NumPy's `.npy` files (format 1.0): the array in C order. Row numbers and paths are only in the metadata. */
import type { FileHandle } from 'node:fs/promises';
import type { AtomicFile } from '../../base/atomic-file.js';
import { invalidOption } from '../../base/checks.js';
import { bytesOf } from '../../onnx/tensor/bits.js';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';
import { permute } from '../../onnx/tensor/permute.js';
import { createData, elementBytes, makeTensor, type DType, type Tensor } from '../../onnx/tensor/tensor.js';
import { datasetInvalid } from '../../base/files/dataset-invalid.js';
import { readExactly, type FeatureEncoder, type FeatureFile, type StoredRows } from './feature-format.js';
import { widen, type Elements } from '../../onnx/tensor/widen.js';

/** NumPy's descriptors. All are little-endian, as are the machines that Node.js runs on. */
const DESCRIPTORS: Readonly<Partial<Record<DType, string>>> = {
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

/** The first bytes of a file, as latin1. */
export const NPY_MAGIC = '\u0093NUMPY';
/** Enough for any header: the header is rewritten in place when the number of rows is known. */
const HEADER_BYTES = 192;
/** The longest header that is read. Ours have 192 bytes. */
const MAX_HEADER_BYTES = 65_536;

/** Encodes the header of a file. Throws `OPTION_INVALID` for strings: `.npy` stores only strings of a fixed length. */
export function encodeNpyHeader(dtype: DType, dims: readonly number[]): Uint8Array {
  const descriptor = DESCRIPTORS[dtype];
  if (descriptor === undefined)
    throw invalidOption('returnNodes', 'made of numeric outputs to write them as .npy', dtype);
  const shape = dims.length === 1 ? `(${dims[0]},)` : `(${dims.join(', ')})`;
  const text = `{'descr': '${descriptor}', 'fortran_order': False, 'shape': ${shape}, }`;
  const header = Buffer.alloc(HEADER_BYTES, ' ');
  header.write(`${NPY_MAGIC}\u0001\u0000`, 'latin1');
  header.writeUInt16LE(HEADER_BYTES - 10, 8);
  header.write(text, 10, 'latin1');
  header.write('\n', HEADER_BYTES - 1, 'latin1');
  return header;
}

/** Encodes a tensor of numbers as a file. */
export function encodeNpy({ dtype, dims, data }: Tensor): Buffer {
  return Buffer.concat([encodeNpyHeader(dtype, dims), bytesOf(data)]);
}

export async function createNpyEncoder(
  file: AtomicFile,
  { dtype, dims }: FeatureColumn,
): Promise<FeatureEncoder> {
  const headerFor = (rows: number): Uint8Array => encodeNpyHeader(dtype, [rows, ...dims]);
  await file.append(headerFor(0));
  return {
    append: ({ tensor }) => file.append(bytesOf(tensor.data)),
    end: (rows) => file.overwrite(0, headerFor(rows)),
  };
}

export async function* readNpyRows(handle: FileHandle, file: FeatureFile): AsyncGenerator<Elements> {
  let offset = await checkNpy(handle, file);
  const rowBytes = file.elements * elementBytes(file.dtype);
  for (let row = 0; row < file.rows; row += file.rowsPerBlock) {
    const rows = Math.min(file.rowsPerBlock, file.rows - row);
    const bytes = await readExactly(handle, offset, rows * rowBytes, file.path);
    offset += bytes.length;
    yield createData(file.dtype, 0, bytes.buffer) as Elements;
  }
}

/** Where the rows of a file lie. */
export async function locateNpyRows(handle: FileHandle, file: FeatureFile): Promise<StoredRows[]> {
  return [{ offset: await checkNpy(handle, file), rows: file.rows, dtype: file.dtype }];
}

/** Compares the header and the size with the manifest. Returns the offset of the first row. */
export async function checkNpy(handle: FileHandle, file: FeatureFile): Promise<number> {
  const { from, length } = locateHeader(await readExactly(handle, 0, 12, file.path), file.path);
  const { descriptor, isCOrder, dims } = parseHeader(await readExactly(handle, from, length, file.path));
  const expected = [file.rows, ...file.dims];
  if (descriptor !== DESCRIPTORS[file.dtype] || !isCOrder)
    throw datasetInvalid(file.path, `it holds "${descriptor}", the manifest says ${file.dtype} in C order`);
  if (dims.join() !== expected.join())
    throw datasetInvalid(file.path, `its shape is [${dims.join()}], the manifest says [${expected.join()}]`);
  const offset = from + length;
  const needed = offset + file.rows * file.elements * elementBytes(file.dtype);
  const { size } = await handle.stat();
  if (size !== needed)
    throw datasetInvalid(file.path, `it has ${size} bytes, ${file.rows} rows need ${needed}`);
  return offset;
}

/**
 * Reads a whole file of any shape as float32.
 *
 * @throws {@link TapirError} `DATASET_INVALID` for a damaged file or a dtype that is not supported.
 */
export function parseNpy(
  bytes: Uint8Array,
  path: string,
): { readonly dims: readonly number[]; readonly data: Float32Array } {
  if (bytes.length < 12) throw datasetInvalid(path, 'it is no .npy file');
  const { from, length } = locateHeader(Buffer.from(bytes.subarray(0, 12)), path);
  const { descriptor, isCOrder, dims } = parseHeader(Buffer.from(bytes.subarray(from, from + length)));
  const dtype = (Object.keys(DESCRIPTORS) as DType[]).find((one) => DESCRIPTORS[one] === descriptor);
  if (dtype === undefined) throw datasetInvalid(path, `it holds "${descriptor}", not numbers`);
  const size = dims.reduce((product, dim) => product * dim, 1) * elementBytes(dtype);
  // Copied: slice() of a Buffer would be a view of the whole file.
  const rows = new Uint8Array(bytes.subarray(from + length, from + length + size));
  if (rows.length !== size) throw datasetInvalid(path, `it ends after ${rows.length} of ${size} bytes`);
  const data = widen(dtype, rows.buffer);
  if (isCOrder) return { dims, data };
  // In Fortran's order, the first axis varies fastest: transposed arrays and results of scikit-learn are written so.
  const stored = makeTensor('float32', dims.toReversed(), data);
  return { dims, data: permute(stored, dims.map((_, axis) => axis).toReversed()).data };
}

/** Where the header text of a file lies. */
function locateHeader(start: Buffer, path: string): { readonly from: number; readonly length: number } {
  const version = start[6]!;
  if (start.toString('latin1', 0, NPY_MAGIC.length) !== NPY_MAGIC || version < 1 || version > 3)
    throw datasetInvalid(path, 'it is no .npy file');
  const length = version === 1 ? start.readUInt16LE(8) : start.readUInt32LE(8);
  if (length > MAX_HEADER_BYTES) throw datasetInvalid(path, `its header has ${length} bytes`);
  return { from: version === 1 ? 10 : 12, length };
}

function parseHeader(header: Buffer): {
  readonly descriptor: string;
  readonly isCOrder: boolean;
  readonly dims: readonly number[];
} {
  const text = header.toString('latin1');
  return {
    descriptor: /'descr':\s*'([^']*)'/.exec(text)?.[1] ?? '',
    isCOrder: /'fortran_order':\s*False/.test(text),
    dims: (/'shape':\s*\(([^)]*)\)/.exec(text)?.[1] ?? '').split(',').flatMap(toSize),
  };
}

function toSize(part: string): number[] {
  return part.trim() === '' ? [] : [Number(part)];
}
