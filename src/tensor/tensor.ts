/** Tensors: plain objects of dtype, dims and data in C order. */
import { show } from '../base/checks.js';
import { TapirError } from '../base/errors.js';

/** Element arrays by dtype. float16 is raw bits, bool one byte each, int64 and uint64 are BigInt. */
interface DataByType {
  float32: Float32Array;
  float64: Float64Array;
  float16: Uint16Array;
  int8: Int8Array;
  uint8: Uint8Array;
  int16: Int16Array;
  uint16: Uint16Array;
  int32: Int32Array;
  uint32: Uint32Array;
  int64: BigInt64Array;
  uint64: BigUint64Array;
  bool: Uint8Array;
  string: string[];
}

/** Element types that can be fed and fetched, in onnxruntime's spelling. */
export type DType = keyof DataByType;

/** A tensor's elements, in C order. */
export type TensorData = DataByType[DType];

/**
 * A tensor as results carry it.
 *
 * @example A batch of two images, `[2, 3, 224, 224]` float32.
 * ```ts
 * import type { Tensor } from 'onnx-tapir';
 *
 * const batch: Tensor = { dtype: 'float32', dims: [2, 3, 224, 224], data: new Float32Array(2 * 3 * 224 * 224) };
 * ```
 */
export interface Tensor<Type extends DType = DType> {
  /** Element type. */
  readonly dtype: Type;
  /** Sizes, outermost first; `[]` is a scalar. */
  readonly dims: readonly number[];
  /** `dims` multiplied many elements in C order. */
  readonly data: DataByType[Type];
}

/** A tensor with its name. */
export interface NamedTensor extends Tensor {
  readonly name: string;
}

/** What `run` accepts: a {@link Tensor}, or anything of the same shape, such as an `ort.Tensor` (`type` for `dtype`). */
export interface TensorLike {
  readonly dtype?: string | undefined;
  readonly type?: string | undefined;
  readonly dims: readonly number[];
  readonly data: TensorData | Uint8ClampedArray | Float16View;
}

/** A Float16Array: its bits are taken. Written down because Node 20 has none. */
interface Float16View extends ArrayBufferView {
  readonly [Symbol.toStringTag]: 'Float16Array';
  readonly length: number;
  [Symbol.iterator](): IterableIterator<number>;
}

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
} as const;

/** Whether a word names an element type that can be fed. */
export function isDType(word: unknown): word is DType {
  return word === 'string' || (typeof word === 'string' && Object.hasOwn(ARRAYS, word));
}

/** How many elements sizes span. */
export function elementCount(dims: readonly number[]): number {
  return dims.reduce((product, size) => product * size, 1);
}

/** An element array: zero-filled, or over a buffer of exactly its size. */
export function createData(dtype: DType, length: number, buffer?: ArrayBuffer): TensorData {
  if (dtype === 'string') return Array.from({ length }, () => '');
  return buffer ? new ARRAYS[dtype](buffer) : new ARRAYS[dtype](length);
}

/** Bytes of an element; 0 for strings, which have no fixed size. */
export function elementBytes(dtype: DType): number {
  return dtype === 'string' ? 0 : ARRAYS[dtype].BYTES_PER_ELEMENT;
}

/** The one sentence form for every bad feed. */
export function mismatch(input: string, expected: string, actual: string): TapirError<'INPUT_MISMATCH'> {
  return new TapirError('INPUT_MISMATCH', `input "${input}" must be ${expected}, got ${actual}`, {
    details: { input, expected, actual },
  });
}

/**
 * Reads a tensor structurally; its data is neither copied nor changed.
 *
 * @throws {@link TapirError} `INPUT_MISMATCH` if it is no tensor, or its data does not fit its dtype or dims.
 */
export function readTensor(input: string, given: unknown): Tensor {
  if (given === null || typeof given !== 'object' || !('dims' in given) || !('data' in given)) {
    throw mismatch(input, 'a tensor { dtype, dims, data }', show(given));
  }
  const { dims, data } = given;
  const dtype: unknown = 'dtype' in given ? given.dtype : 'type' in given ? given.type : undefined;
  if (!isDType(dtype)) throw mismatch(input, 'of a dtype that can be fed (float32, int64, …)', show(dtype));
  const isSizes = Array.isArray(dims) && dims.every((size) => Number.isInteger(size) && size >= 0);
  if (!isSizes) throw mismatch(input, 'a tensor whose dims are integers from 0', show(dims));
  const sizes = dims as number[];
  const elements = checkData(input, dtype, data);
  const count = elementCount(sizes);
  if (elements.length !== count) {
    throw mismatch(input, `${count} elements for dims [${sizes.join(', ')}]`, `${elements.length} elements`);
  }
  return { dtype, dims: [...sizes], data: elements };
}

function checkData(input: string, dtype: DType, data: unknown): TensorData {
  if (dtype === 'string') {
    if (Array.isArray(data) && data.every((item) => typeof item === 'string')) return data;
    throw mismatch(input, 'an array of strings for dtype string', show(data));
  }
  if (data instanceof ARRAYS[dtype]) {
    // A Buffer is a Uint8Array too; both have plain Uint8Array elements.
    return data;
  }
  if (data instanceof Uint8ClampedArray && (dtype === 'uint8' || dtype === 'bool')) {
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  }
  if (dtype === 'float16' && isFloat16Array(data))
    return new Uint16Array(data.buffer, data.byteOffset, data.length);
  const isBig = dtype === 'int64' || dtype === 'uint64';
  const remedy = isBig ? ` (${ARRAYS[dtype].name}.from(values, BigInt) makes one of numbers)` : '';
  throw mismatch(input, `a ${ARRAYS[dtype].name} for dtype ${dtype}${remedy}`, show(data));
}

function isFloat16Array(data: unknown): data is Float16View {
  return ArrayBuffer.isView(data) && Object.prototype.toString.call(data) === '[object Float16Array]';
}

/** Whether the elements are all that lies in their buffer, which can then be moved to another thread. */
export function fillsBuffer(data: TensorData): boolean {
  if (Array.isArray(data)) return true; // Strings are always copied.
  const { buffer, byteOffset, byteLength } = data;
  return buffer instanceof ArrayBuffer && byteOffset === 0 && byteLength === buffer.byteLength;
}

/** The buffers under tensors, each once: what is moved when they cross to another thread. */
export function buffersOf(tensors: readonly Tensor[]): ArrayBuffer[] {
  const buffers = tensors.flatMap(({ data }) => (Array.isArray(data) ? [] : [data.buffer as ArrayBuffer]));
  return [...new Set(buffers)];
}
