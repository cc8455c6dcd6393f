import { describe, expect, it } from 'vitest';
import { decodeNumbers } from '../../../../src/base/html/browser/decode-numbers.js';
import { encodeNumbers } from '../../../../src/base/html/html.js';

describe('numbers of a page', () => {
  it('come back as they were written', () => {
    const floats = Float32Array.of(0, -0, 0.1, -1e30, NaN, Infinity);
    expect(decodeNumbers(Float32Array, encodeNumbers(floats))).toEqual(floats);
    const shorts = Uint16Array.of(0, 1, 65_535);
    // A view into a larger buffer, too.
    expect(decodeNumbers(Uint16Array, encodeNumbers(shorts.subarray(1)))).toEqual(shorts.slice(1));
  });
});
