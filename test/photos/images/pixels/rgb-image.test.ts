/** Rows of pixels, and views of bytes (data-view.ts). */
import { describe, expect, it } from 'vitest';
import { viewOf } from '../../../../src/photos/images/pixels/data-view.js';
import { copyRows, rowsOf } from '../../../../src/photos/images/pixels/rgb-image.js';

describe('copyRows', () => {
  const data = Uint8Array.from({ length: 24 }, (_, i) => i);

  it('copies parts of rows, with gaps on both sides', () => {
    const target = new Uint8Array(12).fill(99);
    copyRows({ data, offset: 2, pitch: 6 }, { data: target, offset: 1, pitch: 4 }, 3, 2);
    expect([...target]).toEqual([99, 2, 3, 99, 99, 8, 9, 99, 99, 14, 15, 99]);
  });

  it('copies rows without gaps in one go', () => {
    const target = new Uint8Array(14).fill(99);
    copyRows({ data, offset: 6, pitch: 6 }, { data: target, offset: 1, pitch: 6 }, 2, 6);
    expect([...target]).toEqual([99, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 99]);
  });

  it('reads an image from a column on', () => {
    const rows = rowsOf({ height: 2, width: 4, data });
    const target = new Uint8Array(12);
    rows.copyRows(0, 1, 2, 6, { data: target, offset: 0, pitch: 6 });
    expect([...target]).toEqual([3, 4, 5, 6, 7, 8, 15, 16, 17, 18, 19, 20]);
  });
});

describe('viewOf', () => {
  it('sees only the bytes of the array', () => {
    const view = viewOf(Uint8Array.of(1, 2, 3, 4, 5).subarray(1, 4));
    expect([view.byteLength, view.getUint16(0), view.getUint8(2)]).toEqual([3, 0x0203, 4]);
    expect(() => view.getUint16(2)).toThrow(RangeError);
  });
});
