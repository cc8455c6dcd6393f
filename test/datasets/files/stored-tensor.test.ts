import { describe, expect, it } from 'vitest';
import { storedTensor, storedType } from '../../../src/datasets/files/stored-tensor.js';
import type { Tensor } from '../../../src/tensor/tensor.js';

describe('storedTensor', () => {
  const single: Tensor = { dtype: 'float32', dims: [1, 2], data: Float32Array.of(1, -2) };
  const integers: Tensor = { dtype: 'int64', dims: [1], data: BigInt64Array.of(5n) };

  it('narrows float32 to float16 on request, and nothing else', () => {
    expect(storedTensor(single, true)).toEqual({
      dtype: 'float16',
      dims: [1, 2],
      data: Uint16Array.of(0x3c00, 0xc000),
    });
    expect(storedTensor(single, false)).toBe(single);
    expect(storedTensor(integers, true)).toBe(integers);
    expect([storedType('float32', true), storedType('float64', true), storedType('float32', false)]).toEqual([
      'float16',
      'float64',
      'float32',
    ]);
  });
});
