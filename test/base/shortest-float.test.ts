import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { doubleToJson, floatsToJson, floatToJson } from '../../src/base/shortest-float.js';

/** The fewest significant digits that read back, found by trying. */
function fewestDigits(value: number): number {
  for (let digits = 1; digits < 9; digits++)
    if (Math.fround(Number(value.toPrecision(digits))) === value) return digits;
  return 9;
}

function digitsOf(text: string): number {
  return text.replace(/e.*$/, '').replace(/[-.]/g, '').replace(/^0+/, '').replace(/0+$/, '').length;
}

/** Every bit pattern of float32 is as likely as any other. */
const floats = fc.integer({ min: 0, max: 2 ** 32 - 1 }).map((bits) => {
  const [value] = new Float32Array(Uint32Array.of(bits).buffer);
  return value!;
});
/** Sizes that JavaScript writes without an exponent. */
const plainFloats = fc
  .tuple(fc.integer({ min: -8, max: 12 }), fc.double({ min: 1, max: 10, noNaN: true }), fc.boolean())
  .map(([exponent, size, isNegative]) => Math.fround((isNegative ? -1 : 1) * size * 10 ** exponent));

describe('floatToJson', () => {
  it.each([
    [0, '0'],
    [-0, '-0.0'],
    [1, '1'],
    [-1, '-1'],
    [0.1, '0.1'],
    [-0.25, '-0.25'],
    [255, '255'],
    [16_777_216, '16777216'],
    [999_999_936, '999999936'],
    [1e9, '1000000000'],
    [0.3333333, '0.3333333'],
    [1e-6, '0.000001'],
    [1e-7, '1e-7'],
    [2 ** -149, '1e-45'],
    [3.402_823_5e38, '3.4028235e+38'],
    [NaN, 'null'],
    [Infinity, 'null'],
    [-Infinity, 'null'],
  ])('%d is %s', (value, text) => expect(floatToJson(Math.fround(value))).toBe(text));

  it.each([
    ['any float32', floats],
    ['sizes without an exponent', plainFloats],
  ])('%s: JSON reads the same value back, from the fewest digits', (_, values) => {
    fc.assert(
      fc.property(values, (value) => {
        fc.pre(Number.isFinite(value));
        const text = floatToJson(value);
        expect(Math.fround(JSON.parse(text) as number)).toBe(value);
        // An integer of up to nine digits is written exactly: rounding it would not make it shorter.
        if (Number.isInteger(value) && Math.abs(value) < 1e9) expect(text).toBe(doubleToJson(value));
        else expect(digitsOf(text)).toBeLessThanOrEqual(fewestDigits(value));
      }),
      { numRuns: 20_000 },
    );
  });
});

describe('floatsToJson', () => {
  it('writes each value as floatToJson does', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(floats, plainFloats), { maxLength: 50 }), (values) => {
        const array = Float32Array.from(values);
        expect(floatsToJson(array)).toBe(Array.from(array, floatToJson).join(','));
      }),
    );
  });

  it('writes arrays that are longer than its buffer', () => {
    const values = Float32Array.from({ length: 50_000 }, (_, i) => Math.sin(i) * 10 ** ((i % 13) - 6));
    expect(floatsToJson(values)).toBe(Array.from(values, floatToJson).join(','));
  });
});

describe('doubleToJson', () => {
  it.each([
    [-0, '-0.0'],
    [0.1, '0.1'],
    [1e300, '1e+300'],
    [NaN, 'null'],
  ])('%d is %s', (value, text) => expect(doubleToJson(value)).toBe(text));
});
