import { describe, expect, it } from 'vitest';
import { encodeFloat16, toFloat16Bits } from '../../../src/tensor/float16.js';
import { folderName, folderNames } from '../../../src/dataset/folder-name.js';
import { encodeNpyHeader } from '../../../src/dataset/formats/write-npy.js';

describe('encodeNpyHeader', () => {
  it('is NumPy’s format 1.0, of one length whatever the number of rows', () => {
    const header = Buffer.from(encodeNpyHeader('float32', [12345678, 2048, 7, 7]));
    expect(header.toString('latin1', 0, 8)).toBe('\u0093NUMPY\u0001\u0000');
    expect(header.readUInt16LE(8) + 10).toBe(header.length);
    expect(header.length % 64).toBe(0);
    expect(header.toString('latin1', 10).trimEnd()).toBe(
      "{'descr': '<f4', 'fortran_order': False, 'shape': (12345678, 2048, 7, 7), }",
    );
    expect(encodeNpyHeader('float32', [0, 2048, 7, 7]).length).toBe(header.length);
    expect(Buffer.from(encodeNpyHeader('int64', [3])).toString('latin1')).toContain("'shape': (3,)");
    expect(() => encodeNpyHeader('string', [1])).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });
});

describe('toFloat16Bits', () => {
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

  it('inverts every half-precision number', () => {
    for (let bits = 0; bits < 0x7c00; bits++) {
      const exponent = bits >> 10;
      const mantissa = bits & 0x3ff;
      const value = exponent === 0 ? mantissa * 2 ** -24 : (1024 + mantissa) * 2 ** (exponent - 25);
      if (toFloat16Bits(value) !== bits || toFloat16Bits(-value) !== (bits | 0x8000))
        expect(toFloat16Bits(value)).toBe(bits);
    }
    expect([...encodeFloat16(Float32Array.of(1, -1))]).toEqual([0x3c00, 0xbc00]);
  });
});

describe('folderName', () => {
  it.each([
    ['features', 'features'],
    ['a/b', 'a%2Fb'],
    ['100%', '100%25'],
    ['été', '%C3%A9t%C3%A9'],
    ['..', '%2E%2E'],
    ['.', '%2E'],
    ['a.', 'a%2E'],
    ['con', '%63on'],
    ['NUL.x', '%4EUL.x'],
    ['console', 'console'],
    ['/layer4/Relu:0', '%2Flayer4%2FRelu%3A0'],
  ])('makes %s into %s', (key, folder) => expect(folderName(key)).toBe(folder));

  it('refuses keys that a file system may take for one', () => {
    expect(() => folderNames(['A', 'a'])).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
    expect([...folderNames(['a', 'b']).values()]).toEqual(['a', 'b']);
  });
});
