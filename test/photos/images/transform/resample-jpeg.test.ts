/** Resizing a JPEG while it is decoded, compared with decoding first and resizing afterwards. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeJpeg } from '../../../../src/photos/images/jpeg/jpeg.js';
import { resample } from '../../../../src/photos/images/resample/resample.js';
import { resampleJpeg, type ResampleTarget } from '../../../../src/photos/images/transform/resample-jpeg.js';
import { startSimdModule } from '../../../../src/photos/images/simd/simd-module.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { createTransform } from '../../../../src/photos/feeds/create-transform.js';
import { fixturePath } from '../../../support/fixtures.js';
import { encode, type Drawn } from '../../../support/jpegs.js';
import { BILINEAR, samplings } from '../../../support/samplings.js';

const ANY = { limitPixels: 1e8, isUpright: false };
const PHOTO: Drawn = {
  width: 300,
  height: 200,
  pattern: 'gradient',
  seed: 3,
  isGrey: false,
  quality: 85,
  isSubsampled: true,
  optimiseCoding: true,
  isMoz: false,
};

/** What the region has beyond the image. */
const fill = [1, 2, 3] as const;

function expectBothWays(bytes: Uint8Array, target: ResampleTarget): void {
  const { size, region } = target;
  const image = decodeJpeg(bytes, ANY)!;
  const after = resample(image, size, region, target, undefined, fill);
  const into = new Uint8Array(region.height * region.width * 3).fill(7);
  const meanwhile = resampleJpeg(bytes, ANY, () => target, into)!;
  expect(meanwhile.data).toBe(into);
  expect(Buffer.compare(meanwhile.data, after.data)).toBe(0);
  expect(meanwhile).toMatchObject({
    height: region.height,
    width: region.width,
    source: { height: image.height, width: image.width },
  });
}

describe('resampleJpeg', () => {
  it('gives the same pixels as both steps in sequence, for any region', async () => {
    const side = fc.integer({ min: 1, max: 150 });
    const place = fc.integer({ min: -20, max: 100 });
    await fc.assert(
      fc.asyncProperty(
        fc.record({ width: fc.integer({ min: 5, max: 150 }), height: side, isSubsampled: fc.boolean() }),
        fc.record({ width: side, height: side }),
        fc.record({ left: place, top: place, width: side, height: side }),
        samplings,
        async (drawn, size, region, sampling) => {
          const isInside = region.left < size.width && region.top < size.height;
          fc.pre(isInside && region.left + region.width > 0 && region.top + region.height > 0);
          // An image that keeps its size takes another path.
          fc.pre(size.width !== drawn.width || size.height !== drawn.height);
          expectBothWays(await encode({ ...PHOTO, ...drawn }), { size, region, fill, ...sampling });
        },
      ),
      { numRuns: 200 },
    );
  });

  it('handles photos of several strips in little memory', async () => {
    const bytes = await encode({ ...PHOTO, width: 3000, height: 1500 });
    const simd = startSimdModule()!;
    const size = { width: 464, height: 232 };
    const target = { size, region: { left: 120, top: 4, width: 224, height: 224 } };
    expectBothWays(bytes, { ...target, fill, ...BILINEAR });
    resampleJpeg(
      bytes,
      ANY,
      () => ({ ...target, fill, ...BILINEAR }),
      undefined,
      () => simd,
    );
    expect(simd.memoryBytes).toBeLessThan(1_500_000);
  });

  it('leaves a file to sharp if it is damaged after the rows that are needed', async () => {
    const bytes = await encode(PHOTO);
    const size = { width: 150, height: 100 };
    const top: ResampleTarget = {
      size,
      region: { left: 0, top: 0, width: 20, height: 5 },
      fill,
      ...BILINEAR,
    };
    expectBothWays(bytes, top);
    const cut = bytes.subarray(0, bytes.length - 2);
    expect(resampleJpeg(cut, ANY, () => top)).toBeUndefined();
    await expect(loadImage(cut, createTransform({ resize: 100, crop: 5 }))).rejects.toMatchObject({
      code: 'IMAGE_TRUNCATED',
    });
  });

  it('leaves images that are not resized to the decoder', async () => {
    const target = { size: PHOTO, region: { left: 1, top: 2, width: 10, height: 20 } };
    const bytes = await encode(PHOTO);
    expect(resampleJpeg(bytes, ANY, () => ({ ...target, fill, ...BILINEAR }))).toBeUndefined();
    const { data } = await loadImage(bytes, createTransform({ resize: null, crop: null }));
    expect(Buffer.compare(data, decodeJpeg(bytes, ANY)!.data)).toBe(0);
  });

  it('gives the same pixels when several images are loaded at once', async () => {
    const photos = ['jpeg_420_500x375.jpg', 'jpeg_444_375x500.jpg', 'own_444.jpg', 'own_grey.jpg'];
    const files = photos.map((name) => readFileSync(fixturePath(`preprocess/images/${name}`)));
    const alone: Buffer[] = [];
    for (const file of files) alone.push(Buffer.from((await loadImage(file)).data));
    const together = await Promise.all([...files, ...files].map((file) => loadImage(file)));
    together.forEach(({ data }, index) => expect(alone[index % files.length]!.equals(data)).toBe(true));
  });
});
