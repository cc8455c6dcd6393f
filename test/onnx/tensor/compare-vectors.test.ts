import { expect, it } from 'vitest';
import { compareVectors } from '../../../src/onnx/tensor/compare-vectors.js';

it.each([
  [[1, 2], [1, 2], 1, 0],
  [[1, 2], [2, 4], 1, 2],
  [[1, 0], [0, 1], 0, 1],
  [[1, 0], [-1, 0], -1, 2],
  [[0, 0], [0, 0], 1, 0],
  [[0, 0], [0, 3], 0, 3],
  [[2], [8], 0.25, 6],
  [[8], [-2], -0.25, 10],
  [[0], [8], 0, 8],
  [[0], [0], 1, 0],
  [[Number.NaN], [8], Number.NaN, Number.NaN],
  [[1, Number.NaN], [1, 2], Number.NaN, Number.NaN],
])('compares %j with %j', (x, y, cosine, maxDifference) => {
  const found = compareVectors(Float32Array.from(x), Float32Array.from(y));
  if (Number.isNaN(cosine)) expect(found.cosine).toBeNaN();
  else expect(found.cosine).toBeCloseTo(cosine);
  expect(found.maxDifference).toBe(maxDifference);
});
