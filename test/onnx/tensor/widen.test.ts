import { describe, expect, it } from 'vitest';
import { widen } from '../../../src/onnx/tensor/widen.js';

describe('widen', () => {
  it('does not copy float32', () => {
    const { buffer } = Float32Array.of(1, NaN, -0);
    expect(widen('float32', buffer).buffer).toBe(buffer);
  });

  it.each([
    ['float16', Uint16Array.of(0x3c00, 0xfc00, 0x0001, 0x8000), [1, -Infinity, 2 ** -24, -0]],
    ['float64', Float64Array.of(1 / 3, 1e300), [Math.fround(1 / 3), Infinity]],
    ['int8', Int8Array.of(-128, 127), [-128, 127]],
    ['uint16', Uint16Array.of(65_535), [65_535]],
    ['uint32', Uint32Array.of(2 ** 32 - 1), [2 ** 32]],
    ['int64', BigInt64Array.of(-(2n ** 62n), 16_777_217n), [-(2 ** 62), 16_777_216]],
    ['uint64', BigUint64Array.of(2n ** 64n - 1n), [2 ** 64]],
    ['bool', Uint8Array.of(0, 1), [0, 1]],
  ] as const)('rounds %s to the nearest float32', (dtype, values, expected) => {
    expect([...widen(dtype, values.buffer)]).toEqual([...expected]);
  });
});
