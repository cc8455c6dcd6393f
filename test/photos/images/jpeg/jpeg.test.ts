/** Our decoder of JPEGs against sharp's, which is libjpeg-turbo, and against Pillow, by hash. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { decodeJpeg } from '../../../../src/photos/images/jpeg/jpeg.js';
import { startSimdModule } from '../../../../src/photos/images/simd/simd-module.js';
import { fixturePath } from '../../../support/fixtures.js';
import { bytesAreSame, damage, encode, paint, sharpPixels, type Drawn } from '../../../support/jpegs.js';

interface Expected {
  readonly images: Readonly<
    Record<string, { readonly width: number; readonly height: number; readonly sha256: string }>
  >;
}

const ANY = { limitPixels: 1e8, isUpright: false };
const { images } = JSON.parse(readFileSync(fixturePath('jpeg/expected.json'), 'utf8')) as Expected;
const special = Object.keys(images).map((name) => readFileSync(fixturePath(`jpeg/images/${name}`)));
const preprocessed = (name: string): Buffer => readFileSync(fixturePath(`preprocess/images/${name}`));

const side = fc.integer({ min: 1, max: 130 });
const drawn: fc.Arbitrary<Drawn> = fc.record({
  // One or two columns of chroma are not interpolated; sharp decodes such images.
  width: fc.oneof(side, fc.integer({ min: 5, max: 40 })),
  height: side,
  pattern: fc.constantFrom('noise', 'extremes', 'gradient'),
  seed: fc.nat(),
  isGrey: fc.boolean(),
  quality: fc.constantFrom(5, 30, 60, 75, 90, 100),
  isSubsampled: fc.boolean(),
  optimiseCoding: fc.boolean(),
  isMoz: fc.boolean(),
});

describe('decodeJpeg', () => {
  it.each(Object.entries(images))('%s is Pillow’s', (name, { width, height, sha256 }) => {
    const bytes = readFileSync(fixturePath(`jpeg/images/${name}`));
    const before = Buffer.from(bytes);
    const image = decodeJpeg(bytes, ANY)!;
    expect(image).toMatchObject({ width, height });
    expect(createHash('sha256').update(image.data).digest('hex')).toBe(sha256);
    expect(bytes.equals(before)).toBe(true);
  });

  it('gives sharp’s pixels: all sizes, samplings, qualities, tables', async () => {
    await fc.assert(
      fc.asyncProperty(drawn, async (image) => {
        const bytes = await encode(image);
        const isLeft = image.isSubsampled && !image.isGrey && image.width < 5;
        const own = decodeJpeg(bytes, ANY);
        // Noise at such low quality may leave the range in which all builds of libjpeg agree.
        if (image.quality > 5) expect(own === undefined).toBe(isLeft);
        if (own) expect(bytesAreSame(own, (await sharpPixels(bytes))!)).toBe(true);
      }),
      { numRuns: 400 },
    );
  });

  it('gives sharp’s pixels at every remainder of the sides', async () => {
    for (let more = 0; more < 16; more++) {
      for (const [width, height] of [
        [17 + more, 32 - more],
        [33, 1 + more],
        [5 + more, 33],
      ] as const) {
        const bytes = await encode({ ...PHOTO, width, height, seed: more });
        expect(bytesAreSame(decodeJpeg(bytes, ANY)!, (await sharpPixels(bytes))!)).toBe(true);
      }
    }
  });

  it('reads files larger than its input buffer', async () => {
    const bytes = await encode({ ...PHOTO, width: 900, height: 500, pattern: 'noise', quality: 100 });
    expect(bytes.length).toBeGreaterThan(3 * 131_072);
    const simd = startSimdModule()!;
    const pixels = (await sharpPixels(bytes))!;
    expect(
      bytesAreSame(
        decodeJpeg(bytes, ANY, () => simd)!,
        pixels,
      ),
    ).toBe(true);
    expect(simd.memoryBytes).toBeLessThan(500_000);
    // Wherever the end of the buffer falls, even in the last bytes of the scan.
    for (let more = 0; more < 40; more++) {
      const longer = Buffer.concat([bytes, Buffer.alloc(more * 4099)]);
      expect(
        bytesAreSame(
          decodeJpeg(longer, ANY, () => simd)!,
          pixels,
        ),
      ).toBe(true);
    }
  });

  it('leaves damaged files to sharp, and never disagrees with it', async () => {
    const counts = { same: 0, left: 0, refused: 0 };
    const files = fc.oneof(
      drawn.map(encode),
      fc.constantFrom(...special).map((file) => Promise.resolve(file)),
    );
    await fc.assert(
      fc.asyncProperty(files, damage, async (file, spoil) => {
        const bytes = spoil(await file);
        const own = decodeJpeg(bytes, { ...ANY, limitPixels: 1e6 });
        const theirs = await sharpPixels(bytes);
        if (!own) counts.left++;
        else expect(theirs && bytesAreSame(own, theirs)).toBe(true);
        if (own) counts.same++;
        if (!theirs) counts.refused++;
      }),
      { numRuns: 1500 },
    );
    // Else the test would try nothing.
    expect(Math.min(counts.same, counts.left, counts.refused)).toBeGreaterThan(100);
  });

  it('leaves other kinds, larger images and turned ones to sharp', async () => {
    const photo = await encode(PHOTO);
    const { width, height } = PHOTO;
    const pixels = sharp(paint(PHOTO), { raw: { width, height, channels: 3 } });
    expect(decodeJpeg(photo, { ...ANY, limitPixels: width * height })).toBeDefined();
    expect(decodeJpeg(photo, { ...ANY, limitPixels: width * height - 1 })).toBeUndefined();
    expect(decodeJpeg(photo, ANY, () => null)).toBeUndefined();
    expect(decodeJpeg(preprocessed('own_cmyk.jpg'), ANY)).toBeUndefined();
    expect(decodeJpeg(await pixels.clone().jpeg({ progressive: true }).toBuffer(), ANY)).toBeUndefined();
    const turned = preprocessed('exif_6_300x400.jpg');
    expect(decodeJpeg(turned, ANY)).toBeDefined();
    expect(decodeJpeg(turned, { ...ANY, isUpright: true })).toBeUndefined();
    const upright = await pixels.clone().withMetadata({ orientation: 1 }).jpeg().toBuffer();
    expect(decodeJpeg(upright, { ...ANY, isUpright: true })).toBeDefined();
  });
});

const PHOTO: Drawn = {
  width: 100,
  height: 75,
  pattern: 'gradient',
  seed: 1,
  isGrey: false,
  quality: 90,
  isSubsampled: true,
  optimiseCoding: false,
  isMoz: false,
};

describe('factors of 15 bits for red and blue', () => {
  it.each([
    ['red', 1.402, 22_970],
    ['blue', 1.772, 29_033],
  ])('give the same result for every value: %s', (_name, factor, short) => {
    const fixed = Math.floor(factor * 65_536 + 0.5);
    for (let value = -128; value < 128; value++) {
      expect((2 * value * short + 0x4000) >> 15).toBe((fixed * value + 0x8000) >> 16);
    }
  });
});
