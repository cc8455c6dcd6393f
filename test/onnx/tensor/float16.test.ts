/** Half precision: every bit pattern, and rounding. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeFloat16, fromFloat16Bits, toFloat16Bits } from '../../../src/onnx/tensor/float16.js';

describe('half precision', () => {
  it('reads back every bit pattern that is not NaN', () => {
    const wrong: number[] = [];
    for (let bits = 0; bits < 0x10000; bits++) {
      const value = fromFloat16Bits(bits);
      if (Number.isNaN(value) ? (bits & 0x7fff) <= 0x7c00 : toFloat16Bits(value) !== bits) wrong.push(bits);
    }
    expect(wrong).toEqual([]);
  });

  // From IEEE 754: 11 significant bits, exponents -14 to 15, subnormals of 2^-24.
  it.each([
    [1, 0x3c00],
    [-2, 0xc000],
    [-0, 0x8000],
    [65504, 0x7bff],
    [65519.99, 0x7bff],
    [65520, 0x7c00],
    [-Infinity, 0xfc00],
    [2 ** -14, 0x0400],
    [2 ** -24, 0x0001],
    [2 ** -25, 0x0000],
    [1.0000001 * 2 ** -25, 0x0001],
    [1 + 2 ** -11, 0x3c00],
    [1 + 3 * 2 ** -11, 0x3c02],
    [0.1, 0x2e66],
  ])('%s has the bits %i', (value, bits) => expect(toFloat16Bits(value)).toBe(bits));

  // Made with numpy.float32(x).astype(numpy.float16).view(numpy.uint16).
  it.each([
    [0, 0x0000],
    [-0, 0x8000],
    [1, 0x3c00],
    [-2, 0xc000],
    [65504, 0x7bff],
    [65519.996, 0x7bff],
    [65520, 0x7c00],
    [Infinity, 0x7c00],
    [-Infinity, 0xfc00],
    [0.1, 0x2e66],
    [1 / 3, 0x3555],
    [2049, 0x6800],
    [2051, 0x6802],
    [2 ** -14, 0x0400],
    [2 ** -14 - 2 ** -24, 0x03ff],
    [2 ** -24, 0x0001],
    [2 ** -25, 0x0000],
    [2 ** -25 + 2 ** -40, 0x0001],
    [1.5 * 2 ** -24, 0x0002],
    [1e-10, 0x0000],
    [NaN, 0x7e00],
  ])('rounds %d as NumPy does', (value, bits) => expect(toFloat16Bits(value)).toBe(bits));

  it('keeps NaN', () => expect(fromFloat16Bits(toFloat16Bits(NaN))).toBeNaN());

  it('rounds to the nearest number', () => {
    fc.assert(
      fc.property(fc.float({ min: -65000, max: 65000, noNaN: true }), (value) => {
        const bits = toFloat16Bits(value);
        const distance = Math.abs(fromFloat16Bits(bits) - value);
        for (const other of [bits - 1, bits + 1])
          if ((other & 0x7fff) < 0x7c00 && other >= 0)
            expect(Math.abs(fromFloat16Bits(other) - value)).toBeGreaterThanOrEqual(distance);
      }),
    );
  });

  it('encodes arrays', () =>
    expect(encodeFloat16(Float32Array.of(1, -2))).toEqual(Uint16Array.of(0x3c00, 0xc000)));
});
