/** Which JPEGs this package decodes itself, and what their headers give. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { readJpegHeader } from '../../../../src/photos/images/jpeg/jpeg-header.js';
import { fixturePath } from '../../../support/fixtures.js';

const fixture = (name: string): Buffer => readFileSync(fixturePath(`preprocess/images/${name}`));

describe('readJpegHeader', () => {
  it('gives size, sampling and tables of a baseline JPEG', () => {
    const header = readJpegHeader(fixture('jpeg_420_500x375.jpg'))!;
    expect(header).toMatchObject({ width: 500, height: 375, restartInterval: 0, isUpright: true });
    expect(header.components.map(({ across, down }) => [across, down])).toEqual([
      [2, 2],
      [1, 1],
      [1, 1],
    ]);
    expect(header.quants.map((factors) => factors.length)).toEqual([64, 64, 64]);
    for (const { dc, ac } of header.tables) {
      for (const { counts, symbols } of [dc, ac])
        expect(counts.reduce((sum, count) => sum + count, 0)).toBe(symbols.length);
    }
    // The scan's header ends where the entropy-coded data begins.
    const scan = fixture('jpeg_420_500x375.jpg').subarray(header.scanAt - 14, header.scanAt);
    expect([...scan.subarray(0, 4)]).toEqual([0xff, 0xda, 0, 12]);
  });

  it('tells grey and turned images', () => {
    expect(readJpegHeader(fixture('own_grey.jpg'))!.components).toHaveLength(1);
    expect(readJpegHeader(fixture('exif_6_300x400.jpg'))).toMatchObject({ isUpright: false });
  });

  it('leaves other kinds to another decoder', async () => {
    for (const name of ['own_progressive.jpg', 'own_cmyk.jpg', 'own_strip.png'])
      expect([name, readJpegHeader(fixture(name))]).toEqual([name, undefined]);
    const narrow = { create: { width: 4, height: 9, channels: 3 as const, background: '#246' } };
    expect(readJpegHeader(await sharp(narrow).jpeg().toBuffer())).toBeUndefined();
    expect(readJpegHeader(await sharp(narrow).jpeg({ chromaSubsampling: '4:4:4' }).toBuffer())).toBeDefined();
  });

  it('leaves every header that is cut off, and ends on any bytes', () => {
    const whole = fixture('jpeg_420_500x375.jpg');
    const { scanAt } = readJpegHeader(whole)!;
    for (let length = 0; length < scanAt; length++)
      expect(readJpegHeader(whole.subarray(0, length))).toBeUndefined();
    fc.assert(
      fc.property(fc.nat(scanAt), fc.uint8Array({ maxLength: 300 }), (length, noise) => {
        const header = readJpegHeader(Buffer.concat([whole.subarray(0, length), noise]));
        expect(header === undefined || header.width > 0).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });
});
