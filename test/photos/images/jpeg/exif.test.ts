/** Which EXIF data leaves an image upright. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isUpright } from '../../../../src/photos/images/jpeg/jpeg-header.js';

/** The body of an APP1 segment with a directory of one entry. */
function exif(
  { isLittle = true, tag = 0x0112, type = 3, count = 1, value = 1 } = {},
  change: (view: DataView) => void = () => undefined,
): Uint8Array {
  const body = new Uint8Array(6 + 8 + 2 + 12);
  body.set(Buffer.from('Exif\0\0'));
  const view = new DataView(body.buffer, 6);
  view.setUint16(0, isLittle ? 0x4949 : 0x4d4d);
  view.setUint16(2, 42, isLittle);
  view.setUint32(4, 8, isLittle);
  view.setUint16(8, 1, isLittle);
  view.setUint16(10, tag, isLittle);
  view.setUint16(12, type, isLittle);
  view.setUint32(14, count, isLittle);
  view.setUint16(18, value, isLittle);
  change(view);
  return body;
}

describe('isUpright', () => {
  it.each([true, false])('reads the orientation, little-endian: %s', (isLittle) => {
    expect(isUpright(exif({ isLittle }))).toBe(true);
    for (let value = 2; value <= 8; value++) expect(isUpright(exif({ isLittle, value }))).toBe(false);
  });

  it('is true without an orientation, and for other data', () => {
    expect(isUpright(exif({ tag: 0x0110, value: 6 }))).toBe(true);
    expect(isUpright(Buffer.from('http://ns.adobe.com/xap/1.0/\0<x/>'))).toBe(true);
    expect(isUpright(new Uint8Array(0))).toBe(true);
  });

  it('leaves invalid structures to another reader', () => {
    expect(isUpright(exif({ type: 4 }))).toBe(false);
    expect(isUpright(exif({ count: 2 }))).toBe(false);
    expect(isUpright(exif({}, (view) => view.setUint16(2, 43, true)))).toBe(false);
    expect(isUpright(exif({}, (view) => view.setUint16(0, 0x4a4a)))).toBe(false);
    expect(isUpright(exif({}, (view) => view.setUint32(4, 1000, true)))).toBe(false);
    expect(isUpright(exif({}, (view) => view.setUint16(8, 2, true)))).toBe(false);
    expect(isUpright(Buffer.from('Exif\0'))).toBe(false);
    expect(isUpright(Buffer.from('Exif\0\0II'))).toBe(false);
  });

  it('ends on any bytes', () => {
    fc.assert(
      fc.property(fc.nat(28), fc.uint8Array({ maxLength: 60 }), (length, noise) => {
        const body = Buffer.concat([exif().subarray(0, length), noise]);
        expect(typeof isUpright(body)).toBe('boolean');
      }),
      { numRuns: 1000 },
    );
  });
});
