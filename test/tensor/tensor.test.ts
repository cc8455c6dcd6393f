import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import { deviceName, readDevice, readDevices, shareThreads } from '../../src/runtime/device.js';
import { readSessionOptions } from '../../src/runtime/session-options.js';
import { readTensor } from '../../src/tensor/tensor.js';

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
    ...[[1, 2], Int32Array.of(1, 2), Float64Array.of(1, 2)].map((numbers): [unknown, string] => [
      { dtype: 'int64', dims: [2], data: numbers },
      'a BigInt64Array for dtype int64 (BigInt64Array.from(values, BigInt) makes one of numbers)',
    ]),
    [{ dtype: 'uint64', dims: [1], data: [1] }, 'BigUint64Array.from(values, BigInt)'],
  ])('refuses %j', (given, message) => {
    expect(() => readTensor('x', given)).toThrow(expect.objectContaining({ code: 'INPUT_MISMATCH' }));
    expect(() => readTensor('x', given)).toThrow(message);
  });
});

describe('readDevice', () => {
  it.each([
    ['cpu', { type: 'cpu', id: 0, threads: 0 }],
    ['cuda', { type: 'cuda', id: 0, threads: 0 }],
    ['cuda:3', { type: 'cuda', id: 3, threads: 0 }],
    ['cpu:1', { type: 'cpu', id: 1, threads: 0 }],
    [
      { type: 'cuda', id: 'MIG-1-2' },
      { type: 'cuda', id: 0, uuid: 'MIG-1-2', threads: 0 },
    ],
    [
      { type: 'cpu', threads: 2 },
      { type: 'cpu', id: 0, threads: 2 },
    ],
    [
      { type: 'cuda', id: 1 },
      { type: 'cuda', id: 1, threads: 0 },
    ],
  ])('reads %j', (given, device) => expect(readDevice('device', given)).toMatchObject(device));

  it.each([
    'gpu',
    'CUDA',
    'cuda:',
    'cuda:-1',
    'cuda:x',
    'webgpu:1',
    'auto:1',
    '',
    1,
    null,
    { type: 'gpu' },
    { id: 1 },
    { type: 'cuda', id: 1.5 },
    { type: 'cuda', id: 'GPU' },
    { type: 'cpu', id: 'GPU-1' },
    { type: 'cuda', gpuMemLimit: 1 },
  ])('refuses %j, which onnxruntime-node would ignore or crash on', (given) =>
    expect(() => readDevice('device', given)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' })),
  );
});

describe('readDevices', () => {
  const names = (given: unknown): string[] => readDevices('devices', given).map(deviceName);

  it('names what was numbered by its number', () => {
    expect(names(['cpu:0', 'cpu:1', 'cuda', { type: 'cuda', id: 'GPU-1' }])).toEqual([
      'cpu:0',
      'cpu:1',
      'cuda:0',
      'cuda:GPU-1',
    ]);
    expect(names(['cpu'])).toEqual(['cpu']);
  });

  it('shares the cores among CPU sessions without threads of their own', () => {
    const threads = (given: unknown, sessions = 1): number[] =>
      shareThreads(readDevices('devices', given), sessions).map((one) => one.threads);
    const share = (sessions: number): number => Math.max(1, Math.floor(availableParallelism() / sessions));
    expect(threads(['cpu:0', 'cpu:1'])).toEqual([share(2), share(2)]);
    expect(threads(['cpu:0', 'cpu:1', 'cuda'], 2)).toEqual([share(4), share(4), 0]);
    expect(threads(['cpu:0', { type: 'cpu', id: 1, threads: 3 }])).toEqual([share(2), 3]);
    expect(threads(['cpu'])).toEqual([0]);
    expect(threads(['cpu'], 2)).toEqual([share(2)]);
  });

  it.each([[[]], ['cpu'], [['cpu', 'cpu:0']], [['cuda:1', { type: 'cuda', id: 1 }]], [['cuda:0', 'x']]])(
    'refuses %j',
    (given) =>
      expect(() => readDevices('devices', given)).toThrow(
        expect.objectContaining({ code: 'OPTION_INVALID' }),
      ),
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
