import { expect, it } from 'vitest';

it('arrays are equal by type, length and every element', () => {
  const data = Float32Array.of(0, 1, NaN);
  expect(data).toEqual(data.slice());
  expect({ rows: [[0, 1], []] }).toEqual({ rows: [[0, 1], []] });
  expect(data.subarray(1)).toEqual(Float32Array.of(1, NaN));
  for (const other of [Float32Array.of(-0, 1, NaN), data.slice(1), Float64Array.from(data), [...data]])
    expect(data).not.toEqual(other);
  for (const other of [[-0, 1], [0], [0, 1, 2], [0, '1'], [undefined, 1]]) expect([0, 1]).not.toEqual(other);
  // A hole is undefined, but not in a strict comparison.
  // oxlint-disable-next-line no-sparse-arrays -- what is tested
  expect([, 1]).toEqual([undefined, 1]);
});
