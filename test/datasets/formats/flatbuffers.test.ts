import { describe, expect, it } from 'vitest';
import { FlatTable } from '../../../src/datasets/formats/flatbuffers.js';

/**
 * A table at byte 16 with its vtable at 4: 0 int8 7, 1 missing, 2 int64 -1 (unaligned is fine), 3 text "hé", 4 vector of two structs
 * of four bytes.
 */
function sample(): Uint8Array {
  const bytes = new Uint8Array(64);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 20, true);
  // vtable: its size, the table's size, an offset for each field.
  for (const [i, value] of [14, 24, 4, 0, 5, 13, 17].entries()) view.setUint16(4 + 2 * i, value, true);
  view.setInt32(20, 16, true);
  bytes[24] = 7;
  view.setBigInt64(25, -1n, true);
  view.setUint32(33, 41 - 33, true);
  view.setUint32(37, 48 - 37, true);
  view.setUint32(41, 3, true);
  bytes.set(Buffer.from('hé'), 45);
  view.setUint32(48, 2, true);
  view.setUint32(52, 11, true);
  view.setUint32(56, 22, true);
  return bytes;
}

describe('FlatTable', () => {
  it('reads fields, and defaults of those that are missing', () => {
    const table = FlatTable.root(sample());
    expect(table.uint8(0)).toBe(7);
    expect([table.has(1), table.int16(1, 5), table.int32(1), table.int64(1), table.table(1)]).toEqual([
      false,
      5,
      0,
      0,
      undefined,
    ]);
    expect(table.int64(2)).toBe(-1);
    expect(table.text(3)).toBe('hé');
    expect(table.structs(4, 4).map((view) => view.getUint32(0, true))).toEqual([11, 22]);
    expect(table.has(99)).toBe(false);
  });

  it('throws a RangeError for any damage, or reads something: it never loops or reads outside', () => {
    for (let at = 0; at < 64; at++) {
      for (const value of [0, 1, 0x7f, 0x80, 0xff]) {
        const bytes = sample();
        bytes[at] = value;
        try {
          const table = FlatTable.root(bytes);
          table.uint8(0);
          table.int64(2);
          expect(table.text(3).length).toBeLessThan(64);
          expect(table.structs(4, 4).length).toBeLessThan(16);
          expect(table.tables(4).length).toBeLessThan(16);
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
      }
    }
  });
});
