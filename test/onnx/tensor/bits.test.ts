import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bytesOf, packBits, unpackBits } from '../../../src/onnx/tensor/bits.js';

describe('bits', () => {
  it('packs booleans lowest bit first, and pads the last byte with zeros', () => {
    expect([...packBits(Uint8Array.of(1, 0, 1, 1, 0, 0, 0, 0, 0, 255))]).toEqual([0b1101, 0b10]);
    expect(packBits(new Uint8Array())).toHaveLength(0);
  });

  it('reads back what it packed', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 100 }), (values) => {
        const bytes = Uint8Array.from(values, Number);
        expect([...unpackBits(packBits(bytes), bytes.length)]).toEqual([...bytes]);
      }),
    );
  });

  it('views the bytes of an array that lies within a larger buffer', () => {
    const data = new Uint16Array([1, 2, 3, 4]).subarray(1, 3);
    expect([...bytesOf(data)]).toEqual([2, 0, 3, 0]);
    expect(bytesOf(data).buffer).toBe(data.buffer);
  });
});
