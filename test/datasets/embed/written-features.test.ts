import { expect, it } from 'vitest';
import { checkCut, writtenDims, writtenFeatures } from '../../../src/datasets/embed/written-features.js';
import { encodeFloat16 } from '../../../src/onnx/tensor/float16.js';

const data = Float32Array.of(3, 4, 100, 0, 0, 7);

it.each([
  [[2, 3], false, [2, 2]],
  [[2, 3, 1, 1], false, [2, 2]],
  [[2, 3, 1, 1], true, [2, 2, 1, 1]],
])('cuts rows of %j to their first elements, of length 1', (dims, keepDims, expected) => {
  const written = writtenFeatures('e', { dtype: 'float32', dims, data }, { keepDims, dims: 2 });
  expect(written.dims).toEqual(expected);
  expect(Array.from(written.data as Float32Array, (value) => Math.fround(value))).toEqual(
    [0.6, 0.8, 0, 0].map(Math.fround),
  );
  expect(writtenDims(['batch', ...dims.slice(1)], { keepDims, dims: 2 })).toEqual([
    'batch',
    ...expected.slice(1),
  ]);
});

it('keeps the element type, and leaves whole vectors as they are', () => {
  const half = { dtype: 'float16', dims: [2, 3], data: encodeFloat16(data) } as const;
  const cut = writtenFeatures('e', half, { keepDims: false, dims: 2 });
  expect(cut).toEqual({
    dtype: 'float16',
    dims: [2, 2],
    data: encodeFloat16(Float32Array.of(0.6, 0.8, 0, 0)),
  });
  const whole = { dtype: 'float32', dims: [2, 3, 1, 1], data } as const;
  expect(writtenFeatures('e', whole, { keepDims: false, dims: undefined }).data).toBe(data);
});

it.each([
  [['n', 2], 'float32'],
  [['n', 'c', 7, 7], 'float32'],
  [['n', 512], 'int64'],
  [['n'], 'float32'],
])('refuses to cut %j %s to 3', (dims, dtype) => {
  expect(() => checkCut('e', { dims, dtype }, 3)).toThrow(
    /"dims" must be at most the length of each output.*"e" has/,
  );
});

it.each([
  [null, null],
  [['n', 'c'], 'float16'],
  [['n', 3, 'h', 1], 'float32'],
])('cannot refuse %j before a run', (dims, dtype) => {
  expect(() => checkCut('e', { dims, dtype }, 3)).not.toThrow();
});
