import { describe, expect, it } from 'vitest';
import { gatherView, isContiguous, spanOf } from '../../../src/onnx/tensor/strided.js';

const storage = Uint8Array.from({ length: 12 }, (_, i) => i);

function gather(offset: number, dims: number[], strides: number[]): number[] {
  const view = { offset, dims, strides };
  const { start, count } = spanOf(view);
  return [...new Uint8Array(gatherView(storage.slice(start, start + count).buffer, view, 1))];
}

describe('a strided view', () => {
  it('is gathered into C order', () => {
    expect(gather(0, [3, 4], [1, 3])).toEqual([0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
    expect(gather(1, [5], [2])).toEqual([1, 3, 5, 7, 9]);
    expect(gather(2, [2, 3], [0, 1])).toEqual([2, 3, 4, 2, 3, 4]);
    expect(gather(7, [], [])).toEqual([7]);
    expect(gather(3, [2, 0], [1, 1])).toEqual([]);
  });

  it('is contiguous whatever the strides of axes of size 1', () => {
    expect(isContiguous({ offset: 3, dims: [2, 1, 3], strides: [3, 99, 1] })).toBe(true);
    expect(isContiguous({ offset: 0, dims: [2, 3], strides: [1, 2] })).toBe(false);
    expect(isContiguous({ offset: 0, dims: [2, 0], strides: [7, 7] })).toBe(true);
  });
});
