/** The datatypes of the Open Inference Protocol, and their elements as bytes. */
import { createData, elementBytes, type DType, type Tensor, type TensorData } from '../../tensor/tensor.js';
import { HttpError } from '../http/http-error.js';

export type Datatype =
  | 'BOOL'
  | 'UINT8'
  | 'UINT16'
  | 'UINT32'
  | 'UINT64'
  | 'INT8'
  | 'INT16'
  | 'INT32'
  | 'INT64'
  | 'FP16'
  | 'FP32'
  | 'FP64'
  | 'BYTES';

/** The protocol's word for each dtype. */
export const DATATYPES: Readonly<Record<DType, Datatype>> = {
  bool: 'BOOL',
  uint8: 'UINT8',
  uint16: 'UINT16',
  uint32: 'UINT32',
  uint64: 'UINT64',
  int8: 'INT8',
  int16: 'INT16',
  int32: 'INT32',
  int64: 'INT64',
  float16: 'FP16',
  float32: 'FP32',
  float64: 'FP64',
  string: 'BYTES',
};

export const DTYPES: ReadonlyMap<string, DType> = new Map(
  Object.entries(DATATYPES).map(([dtype, datatype]) => [datatype, dtype as DType]),
);

/** The error for an input that does not hold what it must. */
export function invalidInput(input: string, expected: string): HttpError {
  return new HttpError('REQUEST_INVALID', `input "${input}" must ${expected}`);
}

/** Maximum number of sizes in a shape. */
const MAX_RANK = 16;

/** Maximum product of the sizes that are not 0 in a shape with a 0: a few bytes must not ask for outputs of gigabytes. */
const MAX_EMPTY = 2 ** 24;

/** The number of elements of a shape. Throws `REQUEST_INVALID`. */
export function countOf(input: string, shape: readonly number[]): number {
  const count = shape.reduce((product, size) => product * size, 1);
  if (count === 0 && shape.reduce((product, size) => product * (size || 1), 1) > MAX_EMPTY)
    throw invalidInput(input, 'have smaller sizes, as it has no elements');
  if (shape.length > MAX_RANK || !Number.isSafeInteger(count))
    throw invalidInput(input, `have a shape of at most ${MAX_RANK} sizes and 2^53 elements`);
  return count;
}

/** Copies elements from bytes: numbers are little-endian, each string follows its length of 4 bytes. Throws `REQUEST_INVALID`. */
export function readBinaryData(
  input: string,
  dtype: DType,
  shape: readonly number[],
  bytes: Uint8Array,
): TensorData {
  const count = countOf(input, shape);
  if (dtype === 'string') return readBinaryElements(input, count, bytes).map((one) => textOf(input, one));
  const expected = count * elementBytes(dtype);
  if (bytes.byteLength !== expected)
    throw invalidInput(input, `have ${expected} bytes, as its shape says, and not ${bytes.byteLength}`);
  return createData(dtype, count, Uint8Array.from(bytes).buffer);
}

const LENGTH_BYTES = 4;

/** The elements of a BYTES tensor as views of `bytes`. Throws `REQUEST_INVALID`. */
export function readBinaryElements(input: string, count: number, bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const elements: Uint8Array[] = [];
  let at = 0;
  while (at < bytes.byteLength && elements.length < count) {
    const start = at + LENGTH_BYTES;
    const end = start <= bytes.byteLength ? start + view.getUint32(at, true) : Infinity;
    if (end > bytes.byteLength) throw invalidInput(input, 'be complete: its last element is cut off');
    elements.push(bytes.subarray(start, end));
    at = end;
  }
  if (elements.length !== count || at !== bytes.byteLength)
    throw invalidInput(input, `hold ${count} elements, as its shape says, each after its length of 4 bytes`);
  return elements;
}

function textOf(input: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw invalidInput(input, 'be made of UTF-8');
  }
}

/** The elements as bytes in the format of {@link readBinaryData}. Numbers are not copied. */
export function encodeBinaryData({ data }: Tensor): Uint8Array {
  if (!Array.isArray(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return Buffer.concat(
    data.flatMap((text) => {
      const bytes = Buffer.from(text);
      const length = Buffer.alloc(LENGTH_BYTES);
      length.writeUInt32LE(bytes.length);
      return [length, bytes];
    }),
  );
}
