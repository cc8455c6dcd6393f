/** Tensors: plain objects with dtype, dims and data in C order. */
import { show } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';

/** Element arrays by dtype. float16 is stored as raw bits, bool as one byte each, int64 and uint64 as BigInt. */
export interface DataByType {
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

/** Element types of inputs and outputs, in onnxruntime's spelling. */
export type DType = keyof DataByType;

/** A tensor's elements, in C order. */
export type TensorData = DataByType[DType];

/** A tensor of one element type. */
export interface TensorOf<Type extends DType> {
  /** Element type. */
  readonly dtype: Type;
  /** Sizes, outermost first; `[]` is a scalar. */
  readonly dims: readonly number[];
  /** The elements in C order: as many as the product of `dims`. */
  readonly data: DataByType[Type];
}

/**
 * A tensor as results carry it: a union by `dtype`, so a test of `dtype` also tells the type of `data`. Name the element type if
 * you know it: `Tensor<'float32'>`.
 *
 * @example A batch of two images, and a result whose type the compiler does not know.
 * ```ts
 * import type { Tensor } from 'onnx-tapir';
 *
 * const batch: Tensor<'float32'> = { dtype: 'float32', dims: [2, 3, 224, 224], data: new Float32Array(2 * 3 * 224 * 224) };
 *
 * function largest(tensor: Tensor): number {
 *   if (tensor.dtype !== 'float32') throw new TypeError(`float32 expected, got ${tensor.dtype}`);
 *   return tensor.data.reduce((most, value) => Math.max(most, value), -Infinity); // data is a Float32Array here
 * }
 * ```
 */
export type Tensor<Type extends DType = DType> = { [One in Type]: TensorOf<One> }[Type];

/** A tensor with its name. */
export type NamedTensor = Tensor & { readonly name: string };

/**
 * Pairs an element type with its array. Where both are known only at run time, the compiler cannot see that they belong together;
 * the caller makes sure that they do.
 */
export function makeTensor<Type extends DType>(
  dtype: Type,
  dims: readonly number[],
  data: DataByType[Type],
): Tensor<Type> {
  return { dtype, dims, data } as Tensor<Type>;
}

/** Adds a name. */
export function nameTensor(name: string, tensor: Tensor): NamedTensor {
  return { ...tensor, name };
}

/**
 * What `run` accepts: a {@link Tensor}, or an object with the same fields, such as an `ort.Tensor` (which has `type` in place of
 * `dtype`).
 */
export interface TensorLike {
  /**
   * Element type. Left out, it is the one that the array holds: a `Float32Array` is float32, a `BigInt64Array` int64, a list of
   * strings string, and so on. Some arrays hold two element types: a `Uint8Array` counts as uint8 and a `Uint16Array` as uint16,
   * so state `'bool'` and `'float16'`.
   */
  readonly dtype?: string | undefined;
  /** Another name for `dtype`, read if `dtype` is left out. */
  readonly type?: string | undefined;
  readonly dims: readonly number[];
  readonly data: TensorData | Uint8ClampedArray | Float16View;
}

/** A Float16Array, of which the bits are read. Declared here because Node 20 has no such type. */
export interface Float16View extends ArrayBufferView {
  readonly [Symbol.toStringTag]: 'Float16Array';
  readonly length: number;
  [Symbol.iterator](): IterableIterator<number>;
}

/** Ordered: of the element types that share an array, the first is the one that `inferDType` takes. */
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float16: Uint16Array,
  bool: Uint8Array,
} as const;

/** Whether a value names an element type of inputs and outputs. */
export function isDType(word: unknown): word is DType {
  return word === 'string' || (typeof word === 'string' && Object.hasOwn(ARRAYS, word));
}

/** Number of elements of a tensor with these sizes. */
export function elementCount(dims: readonly number[]): number {
  return dims.reduce((product, size) => product * size, 1);
}

/** Creates an element array: filled with zeros, or as a view of a buffer of exactly its size. */
export function createData(dtype: DType, length: number, buffer?: ArrayBuffer): TensorData {
  if (dtype === 'string') return Array.from({ length }, () => '');
  return buffer ? new ARRAYS[dtype](buffer) : new ARRAYS[dtype](length);
}

/** Bytes per element; 0 for strings, which have no fixed size. */
export function elementBytes(dtype: DType): number {
  return dtype === 'string' ? 0 : ARRAYS[dtype].BYTES_PER_ELEMENT;
}

/** `INPUT_MISMATCH`: all messages about bad feeds have this form. */
export function mismatch(input: string, expected: string, actual: string): TapirError<'INPUT_MISMATCH'> {
  return new TapirError('INPUT_MISMATCH', `input "${input}" must be ${expected}, got ${actual}`, {
    details: { input, expected, actual },
  });
}

/** Reads any object with the fields of a tensor, whose data is neither copied nor changed. Throws `INPUT_MISMATCH` if they do not fit. */
export function readTensor(input: string, given: unknown): Tensor {
  if (given === null || typeof given !== 'object' || !('dims' in given) || !('data' in given)) {
    throw mismatch(input, 'a tensor { dtype, dims, data }', show(given));
  }
  const { dims, data, dtype: stated, type } = given as Readonly<Record<string, unknown>>;
  const dtype = stated ?? type ?? inferDType(input, data);
  if (!isDType(dtype)) throw mismatch(input, 'of a dtype that can be fed (float32, int64, …)', show(dtype));
  const isSizes = Array.isArray(dims) && dims.every((size) => Number.isInteger(size) && size >= 0);
  if (!isSizes) throw mismatch(input, 'a tensor whose dims are integers from 0', show(dims));
  const sizes = dims as number[];
  const elements = checkData(input, dtype, data);
  const count = elementCount(sizes);
  if (elements.length !== count) {
    throw mismatch(input, `${count} elements for dims [${sizes.join(', ')}]`, `${elements.length} elements`);
  }
  return makeTensor(dtype, [...sizes], elements);
}

/** The element type that an array holds. Throws `INPUT_MISMATCH`. */
function inferDType(input: string, data: unknown): DType {
  if (Array.isArray(data) && typeof data[0] === 'string') return 'string';
  if (isFloat16Array(data)) return 'float16';
  if (data instanceof Uint8ClampedArray) return 'uint8';
  for (const [dtype, ArrayOf] of Object.entries(ARRAYS)) if (data instanceof ArrayOf) return dtype as DType;
  throw mismatch(
    input,
    'a tensor with a typed array as data (a Float32Array, …), or with its dtype',
    show(data),
  );
}

function checkData(input: string, dtype: DType, data: unknown): TensorData {
  if (dtype === 'string') {
    // onnxruntime-node would cut a text at that character.
    const isText = (item: unknown): item is string => typeof item === 'string' && !item.includes('\0');
    if (Array.isArray(data) && data.every(isText)) return data;
    throw mismatch(input, 'an array of strings without U+0000 for dtype string', show(data));
  }
  if (data instanceof ARRAYS[dtype]) {
    return data; // A Buffer is a Uint8Array, too.
  }
  if (data instanceof Uint8ClampedArray && (dtype === 'uint8' || dtype === 'bool')) {
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  }
  if (dtype === 'float16' && isFloat16Array(data))
    return new Uint16Array(data.buffer, data.byteOffset, data.length);
  const isBig = dtype === 'int64' || dtype === 'uint64';
  const remedy = isBig ? ` (convert numbers with ${ARRAYS[dtype].name}.from(values, BigInt))` : '';
  throw mismatch(input, `a ${ARRAYS[dtype].name} for dtype ${dtype}${remedy}`, show(data));
}

function isFloat16Array(data: unknown): data is Float16View {
  return ArrayBuffer.isView(data) && Object.prototype.toString.call(data) === '[object Float16Array]';
}

/** Whether the elements fill their buffer, so that it can be moved to another thread without taking anything else along. */
export function fillsBuffer(data: TensorData): boolean {
  if (Array.isArray(data)) return true; // Strings are always copied.
  const { buffer, byteOffset, byteLength } = data;
  return buffer instanceof ArrayBuffer && byteOffset === 0 && byteLength === buffer.byteLength;
}

/** Takes a buffer of this size out of a list; undefined if it has none. */
export function takeBuffer(buffers: ArrayBuffer[], bytes: number): ArrayBuffer | undefined {
  const at = buffers.findIndex(({ byteLength }) => byteLength === bytes);
  return at < 0 ? undefined : buffers.splice(at, 1)[0];
}

/** The buffers of tensors, without repetition: the transfer list when the tensors move to another thread. */
export function buffersOf(tensors: readonly Tensor[]): ArrayBuffer[] {
  const buffers = tensors.flatMap(({ data }) => (Array.isArray(data) ? [] : [data.buffer as ArrayBuffer]));
  return [...new Set(buffers)];
}
