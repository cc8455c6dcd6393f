/** Snappy: literals and copies of all kinds, and what is damaged. */
import { snappyUncompress } from 'hyparquet';
import { expect, it } from 'vitest';
import { unpackSnappy } from '../../../src/datasets/formats/snappy.js';

const literal = Array.from({ length: 100 }, (_, i) => i);
/** The length, 100 bytes as they are, and copies: 4 overlapping bytes, 40 bytes far back, and 10 by a long offset. */
const packed = Uint8Array.of(
  154,
  1,
  60 << 2,
  99,
  ...literal,
  1,
  1,
  (39 << 2) | 2,
  104,
  0,
  (9 << 2) | 3,
  50,
  0,
  0,
  0,
);
const LENGTH = 154;

it('unpacks literals and copies as the reference does', () => {
  const expected = new Uint8Array(LENGTH);
  snappyUncompress(packed, expected);
  expect(unpackSnappy(packed, LENGTH)).toEqual(expected);
  expect([...expected.subarray(100, 108)]).toEqual([99, 99, 99, 99, 0, 1, 2, 3]);
});

it('refuses other lengths, offsets before the beginning, and every cut', () => {
  expect(() => unpackSnappy(packed, LENGTH + 1)).toThrow('damaged');
  expect(() => unpackSnappy(packed, LENGTH - 1)).toThrow('damaged');
  expect(() => unpackSnappy(Uint8Array.of(4, 1, 9), 4)).toThrow('damaged');
  for (let end = 0; end < packed.length; end++)
    expect(() => unpackSnappy(packed.subarray(0, end), LENGTH), String(end)).toThrow('damaged');
});
