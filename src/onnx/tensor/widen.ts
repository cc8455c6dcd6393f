/** Elements of any dtype as float32. */
import { fromFloat16Bits } from './float16.js';
import { createData, type DType, type Tensor, type TensorData } from './tensor.js';

/** The values of all 65,536 half-precision numbers, made on first use: a lookup is about ten times faster than computing. */
let halves: Float32Array | undefined;

/** Converts half-precision bits to float32. */
function widenFloat16(bits: Uint16Array): Float32Array {
  halves ??= Float32Array.from({ length: 0x10000 }, (_, half) => fromFloat16Bits(half));
  const result = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) result[i] = halves[bits[i]!]!;
  return result;
}

/**
 * Converts little-endian elements to float32. float16 and integers of up to 24 bits keep their values. float64, int32, uint32, int64 and
 * uint64 are rounded to the nearest float32. float32 is not copied.
 */
export function widen(dtype: DType, buffer: ArrayBuffer): Float32Array {
  return widenElements(dtype, createData(dtype, 0, buffer) as Elements);
}

/** The values of a tensor as float32, rounded as by {@link widen}; undefined for text. float32 is not copied. */
export function floatsOf({ dtype, data }: Tensor): Float32Array | undefined {
  return Array.isArray(data) ? undefined : widenElements(dtype, data);
}

/** Elements of any dtype but text. */
export type Elements = Exclude<TensorData, string[]>;

/** As {@link widen}. */
export function widenElements(dtype: DType, data: Elements): Float32Array {
  if (data instanceof Float32Array) return data;
  if (dtype === 'float16') return widenFloat16(data as Uint16Array);
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) return Float32Array.from(data, Number);
  return new Float32Array(data);
}
