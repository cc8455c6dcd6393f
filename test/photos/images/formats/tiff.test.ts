/** Directories of TIFFs. Files that are cut off: headers.test.ts. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isTiffCutOff, readTiffColour, readTiffSize } from '../../../../src/photos/images/formats/tiff.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { fixturePath } from '../../../support/fixtures.js';

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

describe('readTiffColour', () => {
  it('tells CMYK from RGB, in both byte orders', () => {
    expect(readTiffColour(fixture('own_cmyk.tiff'))).toBe('cmyk');
    expect(readTiffColour(fixture('own_lzw.tiff'))).toBe('other');
    for (const isLittle of [true, false]) {
      for (const type of [3, 4]) {
        expect(readTiffColour(tiff(isLittle, 262, type, 5))).toBe('cmyk');
        expect(readTiffColour(tiff(isLittle, 262, type, 6))).toBe('ycbcr');
        expect(readTiffColour(tiff(isLittle, 262, type, 2))).toBe('other');
      }
      expect(readTiffColour(tiff(isLittle, 263, 3, 5))).toBe('other');
    }
  });

  it('ends on any bytes', () => {
    const far = tiff(true, 262, 3, 5);
    new DataView(far.buffer).setUint32(4, 0xffff_ffff, true);
    expect(readTiffColour(far)).toBe('other');
    expect(readTiffColour(tiff(true, 262, 3, 5).subarray(0, 20))).toBe('other');
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (noise) => {
        expect(typeof readTiffColour(Buffer.concat([Buffer.from('MM\0*'), noise]))).toBe('string');
      }),
    );
  });

  it('makes loadImage refuse colours that would be wrong', async () => {
    const ycbcr = Buffer.from(fixture('own_lzw.tiff'));
    const isLittle = ycbcr[0] === 0x49;
    const view = new DataView(ycbcr.buffer, ycbcr.byteOffset, ycbcr.byteLength);
    const directory = view.getUint32(4, isLittle);
    for (let at = directory + 2; ; at += 12) {
      if (view.getUint16(at, isLittle) !== 262) continue;
      view.setUint16(at + 8, 6, isLittle);
      break;
    }
    await expect(loadImage(ycbcr)).rejects.toMatchObject({
      code: 'IMAGE_UNREADABLE',
      message: expect.stringMatching(/YCbCr/),
    });
  });
});

/** A BigTIFF of 3 × 2 pixels in one strip, and perhaps a place of a next image. */
function bigTiff(isLittle: boolean, next = 0, stripType = 16, strips = 1): Uint8Array {
  const tags = [
    [256, 3, 1, 3],
    [257, 3, 1, 2],
    [258, 3, 3, [8, 8, 8]],
    [259, 3, 1, 1],
    [262, 3, 1, 2],
    [273, stripType, strips, 16 + 8 + 9 * 20 + 8],
    [277, 3, 1, 3],
    [278, 3, 1, 2],
    [279, 16, 1, 18],
  ] as const;
  const pixels = 16 + 8 + tags.length * 20 + 8;
  const view = new DataView(new ArrayBuffer(pixels + 18));
  const place = (at: number, value: number): void => view.setBigUint64(at, BigInt(value), isLittle);
  view.setUint16(0, isLittle ? 0x4949 : 0x4d4d);
  view.setUint16(2, 43, isLittle);
  view.setUint16(4, 8, isLittle);
  place(8, 16);
  place(16, tags.length);
  tags.forEach(([tag, type, count, value], i) => {
    const at = 24 + i * 20;
    view.setUint16(at, tag, isLittle);
    view.setUint16(at + 2, type, isLittle);
    place(at + 4, count);
    if (type === 3) [value].flat().forEach((one, j) => view.setUint16(at + 12 + 2 * j, one, isLittle));
    else place(at + 12, value as number);
  });
  place(pixels - 8, next);
  for (let i = 0; i < 18; i++) view.setUint8(pixels + i, 10 * i);
  return new Uint8Array(view.buffer);
}

describe('BigTIFF', () => {
  it.each([true, false])('is read in both byte orders: little %s', async (isLittle) => {
    // A next image that is not there is never looked for.
    for (const next of [0, 4000]) {
      const bytes = bigTiff(isLittle, next);
      expect(readTiffSize(bytes)).toEqual({ width: 3, height: 2 });
      const image = await loadImage(bytes, { resize: null, crop: null });
      expect(image).toMatchObject({ width: 3, height: 2 });
      expect([...image.data]).toEqual(Array.from({ length: 18 }, (_, i) => 10 * i));
    }
    for (const length of [12, 20, 60, 210, 221])
      await expect(loadImage(bigTiff(isLittle).subarray(0, length))).rejects.toMatchObject({
        code: 'IMAGE_TRUNCATED',
      });
  });

  it('ends where a type that nobody knows has a great count', () => {
    expect(isTiffCutOff(bigTiff(true, 0, 99, 2 ** 52))).toBe(false);
    expect(isTiffCutOff(bigTiff(true, 0, 16, 2 ** 52))).toBe(true);
  });
});

describe('readTiffSize', () => {
  it('gives the size of the first image, in both byte orders', () => {
    expect(readTiffSize(fixture('own_lzw.tiff'))).toEqual({ width: 200, height: 150 });
    for (const isLittle of [true, false]) {
      // Only one of the two sides.
      expect(readTiffSize(tiff(isLittle, 256, 4, 70_000))).toBeUndefined();
    }
  });

  it('does not find sides beyond the end of the file', () => {
    const whole = fixture('own_lzw.tiff');
    const directory = whole.readUInt32LE(4);
    expect(readTiffSize(whole.subarray(0, directory + 2))).toBeUndefined();
    expect(readTiffSize(whole.subarray(0, 6))).toBeUndefined();
  });
});
