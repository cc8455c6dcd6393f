import { describe, expect, it } from 'vitest';
import { readTensor } from '../../../src/onnx/tensor/tensor.js';

describe('readTensor', () => {
  const data = new Float32Array(6);

  it('reads tensors and what looks like one, without copying', () => {
    expect(readTensor('x', { dtype: 'float32', dims: [2, 3], data }).data).toBe(data);
    expect(readTensor('x', { type: 'float32', dims: [6], data, location: 'cpu' })).toMatchObject({
      dtype: 'float32',
      dims: [6],
    });
    expect(readTensor('x', { dtype: 'int64', dims: [], data: new BigInt64Array(1) }).dims).toEqual([]);
    expect(
      readTensor('x', { dtype: 'uint8', dims: [3], data: new Uint8ClampedArray(3) }).data,
    ).toBeInstanceOf(Uint8Array);
    expect(readTensor('x', { dtype: 'string', dims: [1], data: ['a'] }).data).toEqual(['a']);
  });

  it.each([
    ['float32', new Float32Array(2)],
    ['float64', new Float64Array(2)],
    ['int8', new Int8Array(2)],
    ['uint8', new Uint8Array(2)],
    ['uint8', new Uint8ClampedArray(2)],
    ['uint8', Buffer.alloc(2)],
    ['int16', new Int16Array(2)],
    ['uint16', new Uint16Array(2)],
    ['int32', new Int32Array(2)],
    ['uint32', new Uint32Array(2)],
    ['int64', new BigInt64Array(2)],
    ['uint64', new BigUint64Array(2)],
    ['string', ['a', 'b']],
  ])('takes %s from the array if no dtype is given', (dtype, elements) => {
    expect(readTensor('x', { dims: [2], data: elements }).dtype).toBe(dtype);
    const leftOut = { dtype: undefined, type: undefined, dims: [2], data: elements };
    expect(readTensor('x', leftOut).dtype).toBe(dtype);
  });

  it('prefers a dtype that is given to that of the array', () => {
    expect(readTensor('x', { dtype: 'bool', dims: [2], data: new Uint8Array(2) }).dtype).toBe('bool');
    expect(readTensor('x', { type: 'float16', dims: [2], data: new Uint16Array(2) }).dtype).toBe('float16');
    expect(
      readTensor('x', { dtype: undefined, type: 'bool', dims: [2], data: new Uint8Array(2) }).dtype,
    ).toBe('bool');
  });

  it.each([
    [undefined, 'a tensor { dtype, dims, data }'],
    [{ dims: [1] }, 'a tensor { dtype, dims, data }'],
    [{ dims: [1], data: [1] }, 'a typed array as data (a Float32Array, …), or with its dtype, got [1]'],
    [{ dims: [1], data: new DataView(new ArrayBuffer(4)) }, 'got DataView'],
    [{ dtype: 'bfloat16', dims: [1], data }, 'a dtype that can be fed'],
    [{ dtype: 'float32', dims: [-1, 6], data }, 'integers from 0'],
    [{ dtype: 'float32', dims: '6', data }, 'integers from 0'],
    [{ dtype: 'float32', dims: [5], data }, '5 elements for dims [5], got 6 elements'],
    [{ dtype: 'float32', dims: [6], data: new Float64Array(6) }, 'a Float32Array for dtype float32'],
    [{ dtype: 'float32', dims: [1], data: [1] }, 'a Float32Array'],
    [{ dtype: 'string', dims: [1], data: [1] }, 'an array of strings'],
    [{ dtype: 'string', dims: [1], data: ['a\0b'] }, 'without U+0000'],
    ...[[1, 2], Int32Array.of(1, 2), Float64Array.of(1, 2)].map((numbers): [unknown, string] => [
      { dtype: 'int64', dims: [2], data: numbers },
      'a BigInt64Array for dtype int64 (convert numbers with BigInt64Array.from(values, BigInt))',
    ]),
    [{ dtype: 'uint64', dims: [1], data: [1] }, 'BigUint64Array.from(values, BigInt)'],
  ])('refuses %j', (given, message) => {
    expect(() => readTensor('x', given)).toThrow(expect.objectContaining({ code: 'INPUT_MISMATCH' }));
    expect(() => readTensor('x', given)).toThrow(message);
  });
});
