/** Rows as views of their tensor. */
import { describe, expect, it } from 'vitest';
import { takeRow, takeRows } from '../../../src/onnx/tensor/rows.js';
import type { Tensor } from '../../../src/onnx/tensor/tensor.js';

const tensor: Tensor<'float32'> = { dtype: 'float32', dims: [3, 2], data: Float32Array.of(1, 2, 3, 4, 5, 6) };

describe('takeRows', () => {
  it('is a view', () => {
    const rows = takeRows(tensor, 1, 2);
    expect(rows).toEqual({ dtype: 'float32', dims: [2, 2], data: Float32Array.of(3, 4, 5, 6) });
    expect((rows.data as Float32Array).buffer).toBe(tensor.data.buffer);
    expect(takeRows(tensor, 3, 0).dims).toEqual([0, 2]);
  });

  it('takes strings', () =>
    expect(takeRows({ dtype: 'string', dims: [2, 1], data: ['a', 'b'] }, 1, 1)).toEqual({
      dtype: 'string',
      dims: [1, 1],
      data: ['b'],
    }));
});

describe('takeRow', () => {
  it('drops the first axis', () => {
    expect(takeRow(tensor, 2)).toEqual({ dtype: 'float32', dims: [2], data: Float32Array.of(5, 6) });
    const scores: Tensor = { dtype: 'float32', dims: [2], data: Float32Array.of(7, 8) };
    expect(takeRow(scores, 1)).toEqual({ dtype: 'float32', dims: [], data: Float32Array.of(8) });
  });
});
