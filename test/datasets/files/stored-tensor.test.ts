import { describe, expect, it, vi } from 'vitest';
import { storedTensor, storedType } from '../../../src/datasets/files/stored-tensor.js';
import type { Tensor } from '../../../src/onnx/tensor/tensor.js';

describe('storedTensor', () => {
  const single: Tensor = { dtype: 'float32', dims: [1, 2], data: Float32Array.of(1, -2) };
  const integers: Tensor = { dtype: 'int64', dims: [1], data: BigInt64Array.of(5n) };

  it('narrows float32 to float16 on request, and nothing else', () => {
    expect(storedTensor('e', single, true)).toEqual({
      dtype: 'float16',
      dims: [1, 2],
      data: Uint16Array.of(0x3c00, 0xc000),
    });
    expect(storedTensor('e', single, false)).toBe(single);
    expect(storedTensor('e', integers, true)).toBe(integers);
    expect([storedType('float32', true), storedType('float64', true), storedType('float32', false)]).toEqual([
      'float16',
      'float64',
      'float32',
    ]);
  });

  it('warns once of an output whose values float16 cannot hold', () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    const large: Tensor = { dtype: 'float32', dims: [1, 3], data: Float32Array.of(65_504, -1e5, Infinity) };
    for (let i = 0; i < 2; i++)
      expect(storedTensor('large', large, true).data).toEqual(Uint16Array.of(0x7bff, 0xfc00, 0x7c00));
    expect(warn).toHaveBeenCalledOnce();
    const [message, options] = warn.mock.calls[0]! as unknown as [string, object];
    expect(message).toContain('output "large" has values above 65,504');
    expect(options).toEqual({ code: 'TAPIR_FLOAT16_OVERFLOW' });
    warn.mockRestore();
  });
});
