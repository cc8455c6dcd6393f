/** Headers of WebPs. Files that are cut off: headers.test.ts. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readWebpHeader } from '../../../../src/photos/images/formats/headers.js';
import { fixturePath } from '../../../support/fixtures.js';

const fixture = (name: string): Buffer => readFileSync(fixturePath(`preprocess/images/${name}`));

describe('readWebpHeader', () => {
  const webp = (chunk: string, ...at20: number[]): Uint8Array =>
    Buffer.concat([Buffer.from(`RIFF----WEBP${chunk}----`), Buffer.from(at20), Buffer.alloc(10)]);

  it('gives the size, and whether it is one opaque image', () => {
    expect(readWebpHeader(webp('VP8 ', 0, 0, 0, 0x9d, 1, 0x2a, 0xf4, 0x41, 0x77, 0x81))).toEqual({
      width: 500,
      height: 375,
      isOpaque: true,
      hasAlpha: false,
    });
    // 500 × 375, less 1, in 14 bits each; then alpha.
    const bits = 499 + 374 * 16_384;
    const lossless = (alpha: number): Uint8Array =>
      webp('VP8L', 0x2f, bits & 255, (bits >> 8) & 255, (bits >> 16) & 255, (bits >> 24) | (alpha << 4));
    expect(readWebpHeader(lossless(0))).toEqual({ width: 500, height: 375, isOpaque: true, hasAlpha: false });
    expect(readWebpHeader(lossless(1))).toEqual({ width: 500, height: 375, isOpaque: false, hasAlpha: true });
    const extended = (flags: number): Uint8Array => webp('VP8X', flags, 0, 0, 0, 243, 1, 0, 0x76, 1, 1);
    const size = { width: 500, height: 375 + 65_536 };
    expect(readWebpHeader(extended(8))).toEqual({ ...size, isOpaque: true, hasAlpha: false });
    for (const flag of [2, 16])
      expect(readWebpHeader(extended(flag))).toEqual({ ...size, isOpaque: false, hasAlpha: flag === 16 });
    expect(readWebpHeader(webp('ALPH'))).toBeUndefined();
    expect(readWebpHeader(webp('VP8 ').subarray(0, 29))).toBeUndefined();
  });

  it('reads a real file', () => {
    expect(readWebpHeader(fixture('own.webp'))).toMatchObject({ width: expect.any(Number) });
  });
});
