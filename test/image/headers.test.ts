import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isTiffSeparated, readJpegFrame } from '../../src/image/headers.js';
import { fixturePath } from '../support/fixtures.js';

const fixture = (name: string): Buffer => readFileSync(fixturePath(`preprocess/images/${name}`));

/** A TIFF directory with one entry, at byte 10. */
function tiff(isLittle: boolean, tag: number, type: number, value: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(24));
  view.setUint16(0, isLittle ? 0x4949 : 0x4d4d);
  view.setUint16(2, 42, isLittle);
  view.setUint32(4, 10, isLittle);
  view.setUint16(10, 1, isLittle);
  view.setUint16(12, tag, isLittle);
  view.setUint16(14, type, isLittle);
  view.setUint32(16, 1, isLittle);
  if (type === 3) view.setUint16(20, value, isLittle);
  else view.setUint32(20, value, isLittle);
  return new Uint8Array(view.buffer);
}

describe('readJpegFrame', () => {
  it('gives size and components', () => {
    expect(readJpegFrame(fixture('jpeg_420_500x375.jpg'))).toEqual({
      width: 500,
      height: 375,
      components: 3,
    });
    expect(readJpegFrame(fixture('own_progressive.jpg'))).toMatchObject({ components: 3 });
    expect(readJpegFrame(fixture('own_grey.jpg'))).toMatchObject({ components: 1 });
    expect(readJpegFrame(fixture('own_cmyk.jpg'))).toMatchObject({ components: 4 });
  });

  it('ends on any bytes', () => {
    const whole = fixture('jpeg_420_500x375.jpg');
    expect(readJpegFrame(whole.subarray(0, 20))).toBeUndefined();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(300), (noise, cut) => {
        const frame = readJpegFrame(Buffer.concat([whole.subarray(0, cut), noise]));
        return frame === undefined || frame.width >= 0;
      }),
    );
  });
});

describe('isTiffSeparated', () => {
  it('tells ink from light, in both byte orders', () => {
    expect(isTiffSeparated(fixture('own_cmyk.tiff'))).toBe(true);
    expect(isTiffSeparated(fixture('own_lzw.tiff'))).toBe(false);
    for (const isLittle of [true, false]) {
      for (const type of [3, 4]) {
        expect(isTiffSeparated(tiff(isLittle, 262, type, 5))).toBe(true);
        expect(isTiffSeparated(tiff(isLittle, 262, type, 2))).toBe(false);
      }
      expect(isTiffSeparated(tiff(isLittle, 263, 3, 5))).toBe(false);
    }
  });

  it('ends on any bytes', () => {
    const far = tiff(true, 262, 3, 5);
    new DataView(far.buffer).setUint32(4, 0xffff_ffff, true);
    expect(isTiffSeparated(far)).toBe(false);
    expect(isTiffSeparated(tiff(true, 262, 3, 5).subarray(0, 20))).toBe(false);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (noise) => {
        expect(typeof isTiffSeparated(Buffer.concat([Buffer.from('MM\0*'), noise]))).toBe('boolean');
      }),
    );
  });
});
