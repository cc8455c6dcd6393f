import { describe, expect, it } from 'vitest';
import { encodeNpyHeader, parseNpy } from '../../../src/datasets/formats/npy.js';

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

describe('parseNpy', () => {
  it.each([
    ['C', 'False', [1, 2, 3, 4, 5, 6]],
    ['Fortran', 'True ', [1, 4, 2, 5, 3, 6]],
  ])('reads an array in the order of %s', (_order, isFortran, stored) => {
    const header = Buffer.from(encodeNpyHeader('float32', [2, 3]));
    const text = header.toString('latin1').replace("'fortran_order': False", `'fortran_order': ${isFortran}`);
    const bytes = Buffer.concat([Buffer.from(text, 'latin1'), Buffer.from(Float32Array.from(stored).buffer)]);
    const { dims, data } = parseNpy(bytes, 'x.npy');
    expect([dims, [...data]]).toEqual([[2, 3], [1, 2, 3, 4, 5, 6]]); // prettier-ignore
  });
});
