/** The datatypes of the Open Inference Protocol, and their elements as JSON and as bytes. */
import { toFloat16Bits } from '../../tensor/float16.js';
import { createData, type DType, type Tensor, type TensorData } from '../../tensor/tensor.js';
import { HttpError } from './http-error.js';

/** A datatype of the protocol. */
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

/** Element types by the protocol's word. */
export const DTYPES: ReadonlyMap<string, DType> = new Map(
  Object.entries(DATATYPES).map(([dtype, datatype]) => [datatype, dtype as DType]),
);

function invalid(input: string, expected: string): HttpError {
  return new HttpError('REQUEST_INVALID', `input "${input}" must ${expected}`);
}

/** Smallest and largest value of integers. */
const RANGES: Readonly<Partial<Record<DType, readonly [number, number]>>> = {
  uint8: [0, 2 ** 8 - 1],
  uint16: [0, 2 ** 16 - 1],
  uint32: [0, 2 ** 32 - 1],
  // What JSON's numbers hold exactly.
  uint64: [0, Number.MAX_SAFE_INTEGER],
  int8: [-(2 ** 7), 2 ** 7 - 1],
  int16: [-(2 ** 15), 2 ** 15 - 1],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
};

/** Longest shape; deeper lists are refused before they are walked. */
const MAX_RANK = 16;

/** How many elements a shape spans. Throws `REQUEST_INVALID`. */
export function countOf(input: string, shape: readonly number[]): number {
  const count = shape.reduce((product, size) => product * size, 1);
  if (shape.length > MAX_RANK || !Number.isSafeInteger(count))
    throw invalid(input, `have a shape of at most ${MAX_RANK} sizes and 2^53 elements`);
  return count;
}

/**
 * Reads elements that a JSON request holds, flat or nested as the shape is.
 *
 * @throws {@link HttpError} `REQUEST_INVALID`.
 */
export function readJsonData(
  input: string,
  dtype: DType,
  shape: readonly number[],
  given: unknown,
): TensorData {
  const count = countOf(input, shape);
  if (!Array.isArray(given)) throw invalid(input, 'hold its elements as a list, "data"');
  const isNested = given.some((item) => Array.isArray(item));
  const flat = isNested ? flatten(input, given, shape) : given;
  if (flat.length !== count)
    throw invalid(input, `have ${count} elements, as its shape says, and not ${flat.length}`);
  const data = createData(dtype, count);
  const read = readerOf(input, dtype);
  // One kind of array and one kind of element, by dtype.
  const elements = data as unknown[];
  for (let i = 0; i < count; i++) elements[i] = read(flat[i]);
  return data;
}

function flatten(input: string, given: readonly unknown[], shape: readonly number[]): readonly unknown[] {
  let level = given;
  for (const size of shape.slice(1)) {
    const next: unknown[] = [];
    for (const item of level) {
      if (!Array.isArray(item) || item.length !== size)
        throw invalid(input, 'be nested as its shape says, or not at all');
      for (const element of item) next.push(element);
    }
    level = next;
  }
  return level;
}

function readerOf(input: string, dtype: DType): (element: unknown) => unknown {
  const check = (isFit: boolean, element: unknown): void => {
    if (!isFit) throw invalid(input, `be made of ${DATATYPES[dtype]}, and not of ${JSON.stringify(element)}`);
  };
  if (dtype === 'string')
    return (element) => {
      check(typeof element === 'string', element);
      return element;
    };
  if (dtype === 'bool')
    return (element) => {
      check(typeof element === 'boolean', element);
      return element === true ? 1 : 0;
    };
  const [min, max] = RANGES[dtype] ?? [-Infinity, Infinity];
  const isInteger = dtype in RANGES;
  const isBig = dtype === 'int64' || dtype === 'uint64';
  return (element) => {
    const isNumber = typeof element === 'number' && (!isInteger || Number.isInteger(element));
    check(isNumber && element >= min && element <= max, element);
    if (isBig) return BigInt(element as number);
    return dtype === 'float16' ? toFloat16Bits(element as number) : element;
  };
}

/**
 * Reads elements from bytes: little-endian, strings each behind its length of 4 bytes.
 *
 * @param bytes - Exactly those of the tensor; copied.
 * @throws {@link HttpError} `REQUEST_INVALID`.
 */
export function readBinaryData(
  input: string,
  dtype: DType,
  shape: readonly number[],
  bytes: Uint8Array,
): TensorData {
  const count = countOf(input, shape);
  if (dtype === 'string') return readBinaryElements(input, count, bytes).map((one) => textOf(input, one));
  const expected = count * BYTES_PER_ELEMENT[dtype];
  if (bytes.byteLength !== expected)
    throw invalid(input, `have ${expected} bytes, as its shape says, and not ${bytes.byteLength}`);
  return createData(dtype, count, Uint8Array.from(bytes).buffer);
}

const BYTES_PER_ELEMENT: Readonly<Record<Exclude<DType, 'string'>, number>> = {
  bool: 1,
  uint8: 1,
  int8: 1,
  uint16: 2,
  int16: 2,
  float16: 2,
  uint32: 4,
  int32: 4,
  float32: 4,
  uint64: 8,
  int64: 8,
  float64: 8,
};

const LENGTH_BYTES = 4;

/** The elements of a BYTES tensor, as views. Throws `REQUEST_INVALID`. */
export function readBinaryElements(input: string, count: number, bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const elements: Uint8Array[] = [];
  let at = 0;
  while (at < bytes.byteLength && elements.length < count) {
    const start = at + LENGTH_BYTES;
    const end = start <= bytes.byteLength ? start + view.getUint32(at, true) : Infinity;
    if (end > bytes.byteLength) throw invalid(input, 'be whole: its last element is cut off');
    elements.push(bytes.subarray(start, end));
    at = end;
  }
  if (elements.length !== count || at !== bytes.byteLength)
    throw invalid(input, `hold ${count} elements, as its shape says, each behind its length of 4 bytes`);
  return elements;
}

function textOf(input: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw invalid(input, 'be made of UTF-8');
  }
}

/** The elements as bytes, as {@link readBinaryData} reads them; numbers are not copied. */
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
