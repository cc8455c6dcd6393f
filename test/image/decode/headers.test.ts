import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readJpegFrame, readOpaqueWebp, readTiffColour } from '../../../src/image/decode/headers.js';
import { loadImage } from '../../../src/image/transform.js';
import { fixturePath } from '../../support/fixtures.js';

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

describe('readOpaqueWebp', () => {
  const webp = (chunk: string, ...at20: number[]): Uint8Array =>
    Buffer.concat([Buffer.from(`RIFF----WEBP${chunk}----`), Buffer.from(at20), Buffer.alloc(10)]);

  it('gives the size of one opaque picture', () => {
    expect(readOpaqueWebp(webp('VP8 ', 0, 0, 0, 0x9d, 1, 0x2a, 0xf4, 0x41, 0x77, 0x81))).toEqual({
      width: 500,
      height: 375,
    });
    // 500 × 375 as 14 bits each, less 1; then alpha.
    const bits = 499 + 374 * 16_384;
    const lossless = (alpha: number): Uint8Array =>
      webp('VP8L', 0x2f, bits & 255, (bits >> 8) & 255, (bits >> 16) & 255, (bits >> 24) | (alpha << 4));
    expect(readOpaqueWebp(lossless(0))).toEqual({ width: 500, height: 375 });
    expect(readOpaqueWebp(lossless(1))).toBeUndefined();
    const extended = (flags: number): Uint8Array => webp('VP8X', flags, 0, 0, 0, 243, 1, 0, 0x76, 1, 1);
    expect(readOpaqueWebp(extended(8))).toEqual({ width: 500, height: 375 + 65_536 });
    for (const flag of [2, 16]) expect(readOpaqueWebp(extended(flag))).toBeUndefined();
    expect(readOpaqueWebp(webp('ALPH'))).toBeUndefined();
    expect(readOpaqueWebp(webp('VP8 ').subarray(0, 29))).toBeUndefined();
  });

  it('is right about a file', () => {
    expect(readOpaqueWebp(fixture('own.webp'))).toMatchObject({ width: expect.any(Number) });
  });
});

describe('readTiffColour', () => {
  it('tells ink from light, in both byte orders', () => {
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

  it('has colours refused that would come out wrong', async () => {
    const ycbcr = Buffer.from(fixture('own_lzw.tiff'));
    const isLittle = ycbcr[0] === 0x49;
    const view = new DataView(ycbcr.buffer, ycbcr.byteOffset, ycbcr.byteLength);
    const directory = view.getUint32(4, isLittle);
    for (let at = directory + 2; ; at += 12) {
      if (view.getUint16(at, isLittle) !== 262) continue;
      view.setUint16(at + 8, 6, isLittle);
      break;
    }
    await expect(loadImage(ycbcr)).rejects.toMatchObject({ code: 'IMAGE_UNREADABLE', message: /YCbCr/ });
  });
});
