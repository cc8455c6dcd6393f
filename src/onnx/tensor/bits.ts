/** Elements as bytes, and booleans as bits: the layouts that Arrow and Parquet store. */
import type { TensorData } from './tensor.js';

/** Returns a view of the bytes of numeric elements. Callers refuse strings earlier. */
export function bytesOf(data: TensorData): Uint8Array {
  const { buffer, byteOffset, byteLength } = data as Exclude<TensorData, string[]>;
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Packs booleans of one byte each into bits, lowest bit first. */
export function packBits(values: Uint8Array): Uint8Array {
  const bits = new Uint8Array(Math.ceil(values.length / 8));
  for (let i = 0; i < values.length; i++) if (values[i] !== 0) bits[i >> 3]! |= 1 << (i & 7);
  return bits;
}

/** Unpacks bits, lowest bit first, into 0 and 1. */
export function unpackBits(bits: Uint8Array, count: number): Uint8Array {
  const result = new Uint8Array(count);
  for (let i = 0; i < count; i++) result[i] = (bits[i >> 3]! >> (i & 7)) & 1;
  return result;
}
