/** Reads `.npy` files, to check what is written and to take expected values. */
import { readFileSync } from 'node:fs';
import type { DType, Tensor, TensorData } from '../../src/onnx/tensor/tensor.js';

type Make = (buffer: ArrayBuffer) => Exclude<TensorData, string[]>;
const KINDS: Readonly<Record<string, readonly [DType, Make]>> = {
  f4: ['float32', (buffer) => new Float32Array(buffer)],
  f8: ['float64', (buffer) => new Float64Array(buffer)],
  f2: ['float16', (buffer) => new Uint16Array(buffer)],
  i1: ['int8', (buffer) => new Int8Array(buffer)],
  u1: ['uint8', (buffer) => new Uint8Array(buffer)],
  i2: ['int16', (buffer) => new Int16Array(buffer)],
  u2: ['uint16', (buffer) => new Uint16Array(buffer)],
  i4: ['int32', (buffer) => new Int32Array(buffer)],
  u4: ['uint32', (buffer) => new Uint32Array(buffer)],
  i8: ['int64', (buffer) => new BigInt64Array(buffer)],
  u8: ['uint64', (buffer) => new BigUint64Array(buffer)],
  b1: ['bool', (buffer) => new Uint8Array(buffer)],
};

/** Reads a file of C order. */
export function readNpy(path: string): Tensor {
  const file = readFileSync(path);
  const headerLength = file[6] === 1 ? file.readUInt16LE(8) : file.readUInt32LE(8);
  const headerStart = file[6] === 1 ? 10 : 12;
  const header = file.toString('latin1', headerStart, headerStart + headerLength);
  const kind = KINDS[/'descr': '[<|]([a-z]\d)'/.exec(header)?.[1] ?? ''];
  if (!kind || !header.includes("'fortran_order': False")) throw new Error(`cannot read ${path}: ${header}`);
  const dims = (/'shape': \(([^)]*)\)/.exec(header)?.[1] ?? '')
    .split(',')
    .filter((part) => part.trim() !== '');
  const bytes = file.subarray(headerStart + headerLength);
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
  return { dtype: kind[0], dims: dims.map(Number), data: kind[1](buffer) } as Tensor;
}
