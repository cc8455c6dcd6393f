import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readDevice } from '../../src/runtime/device.js';
import { joinRows, takeRows } from '../../src/runtime/rows.js';
import { readSessionOptions } from '../../src/runtime/session-options.js';
import { detachable, readTensor, type Tensor } from '../../src/runtime/tensor.js';

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
    [undefined, 'a tensor { dtype, dims, data }'],
    [{ dims: [1] }, 'a tensor { dtype, dims, data }'],
    [{ dtype: 'bfloat16', dims: [1], data }, 'a dtype that can be fed'],
    [{ dtype: 'float32', dims: [-1, 6], data }, 'integers from 0'],
    [{ dtype: 'float32', dims: '6', data }, 'integers from 0'],
    [{ dtype: 'float32', dims: [5], data }, '5 elements for dims [5], got 6 elements'],
    [{ dtype: 'float32', dims: [6], data: new Float64Array(6) }, 'a Float32Array for dtype float32'],
    [{ dtype: 'float32', dims: [1], data: [1] }, 'a Float32Array'],
    [{ dtype: 'string', dims: [1], data: [1] }, 'an array of strings'],
  ])('refuses %j', (given, message) => {
    expect(() => readTensor('x', given)).toThrow(expect.objectContaining({ code: 'INPUT_MISMATCH' }));
    expect(() => readTensor('x', given)).toThrow(message);
  });
});

describe('detachable', () => {
  it('copies unless the buffer may be given up and holds nothing else', () => {
    const whole = new Float32Array(4).fill(1);
    const view = whole.subarray(1, 3);
    expect(detachable(whole, false)).not.toBe(whole);
    expect(detachable(whole, true)).toBe(whole);
    expect(detachable(view, true)).toEqual(new Float32Array([1, 1]));
    expect((detachable(view, true) as Float32Array).buffer.byteLength).toBe(8);
    const shared = new Uint8Array(new SharedArrayBuffer(4));
    expect((detachable(shared, true) as Uint8Array).buffer).toBeInstanceOf(ArrayBuffer);
    const pooled = Buffer.from('abc');
    expect((detachable(pooled, true) as Uint8Array).buffer.byteLength).toBe(3);
  });
});

describe('rows', () => {
  it('taken apart and joined again are the same, for any number of parts', () => {
    const shape = fc.record({
      rows: fc.integer({ min: 1, max: 20 }),
      inner: fc.integer({ min: 0, max: 4 }),
      cut: fc.nat(20),
    });
    fc.assert(
      fc.property(shape, ({ rows, inner, cut }) => {
        const at = cut % (rows + 1);
        const data = Float32Array.from({ length: rows * inner }, (_, i) => i);
        const tensor: Tensor = { dtype: 'float32', dims: [rows, inner], data };
        expect(joinRows([takeRows(tensor, 0, at), takeRows(tensor, at, rows - at)])).toEqual(tensor);
      }),
    );
  });

  it('join strings and big integers', () => {
    const words: Tensor = { dtype: 'string', dims: [1, 2], data: ['a', 'b'] };
    expect(joinRows([words, words]).data).toEqual(['a', 'b', 'a', 'b']);
    const big: Tensor = { dtype: 'int64', dims: [1], data: BigInt64Array.of(1n) };
    expect(joinRows([big, big]).data).toEqual(BigInt64Array.of(1n, 1n));
  });

  it('of different inner sizes, or none, cannot be joined', () => {
    const of = (dims: number[]): Tensor => ({
      dtype: 'float32',
      dims,
      data: new Float32Array(dims.reduce((a, b) => a * b, 1)),
    });
    const refusal = expect.objectContaining({
      code: 'INTERNAL',
      message: expect.stringContaining('cannot be joined') as string,
    });
    expect(() => joinRows([of([1, 2]), of([1, 3])])).toThrow(refusal);
    expect(() => joinRows([of([]), of([])])).toThrow(refusal);
  });
});

describe('readDevice', () => {
  it.each([
    ['cpu', { type: 'cpu', id: 0, threads: 0 }],
    ['cuda', { type: 'cuda', id: 0, threads: 0 }],
    ['cuda:3', { type: 'cuda', id: 3, threads: 0 }],
    [
      { type: 'cpu', threads: 2 },
      { type: 'cpu', id: 0, threads: 2 },
    ],
    [
      { type: 'cuda', id: 1 },
      { type: 'cuda', id: 1, threads: 0 },
    ],
  ])('reads %j', (given, device) => expect(readDevice('device', given)).toEqual(device));

  it.each([
    'gpu',
    'CUDA',
    'cuda:',
    'cuda:-1',
    'cuda:x',
    'cpu:1',
    '',
    1,
    null,
    { type: 'gpu' },
    { id: 1 },
    { type: 'cuda', id: 1.5 },
    { type: 'cuda', gpuMemLimit: 1 },
  ])('refuses %j, which onnxruntime-node would ignore or crash on', (given) =>
    expect(() => readDevice('device', given)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' })),
  );
});

describe('readSessionOptions', () => {
  it('copies, so that later changes of the caller’s object change nothing', () => {
    const extra = { session: { intra_op: { allow_spinning: '0' } } };
    const options = readSessionOptions({ extra });
    extra.session.intra_op.allow_spinning = '1';
    expect(options.extra).toEqual({ session: { intra_op: { allow_spinning: '0' } } });
  });

  it.each([
    { graphOptimizationLevel: 'most' },
    { freeDimensionOverrides: {} },
    { extra: { a: 1 } },
    { extra: [] },
    { interOpNumThreads: -1 },
    { enableMemPattern: 1 },
  ])('refuses %j', (given) =>
    expect(() => readSessionOptions(given as object)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    ),
  );
});
