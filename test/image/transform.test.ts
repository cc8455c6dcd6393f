import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { imageFormat } from '../../src/image/formats/image-format.js';
import { centerCrop, resizedSize } from '../../src/image/pixels/geometry.js';
import { resample } from '../../src/image/resample/resample.js';
import { loadImage } from '../../src/image/load-image.js';
import { createTransform } from '../../src/image/transform.js';
import { projectPath } from '../support/fixtures.js';

const photo = projectPath('examples/photos/sea/sea-0.jpg');

describe('geometry', () => {
  it('truncates the longer side and rounds the crop half to even, as torchvision does', () => {
    expect(resizedSize({ height: 375, width: 500 }, 256)).toEqual({ height: 256, width: 341 });
    expect(resizedSize({ height: 500, width: 375 }, 256)).toEqual({ height: 341, width: 256 });
    expect(resizedSize({ height: 1, width: 9000 }, 256)).toEqual({ height: 256, width: 2_304_000 });
    expect(resizedSize({ height: 3, width: 4 }, null)).toEqual({ height: 3, width: 4 });
    // (229 − 224) / 2 = 2.5 → 2, (231 − 224) / 2 = 3.5 → 4.
    const crop = { height: 224, width: 224 };
    expect(centerCrop({ height: 229, width: 231 }, crop)).toMatchObject({ top: 2, left: 4 });
    expect(centerCrop({ height: 100, width: 225 }, crop)).toMatchObject({ top: -62, left: 0 });
  });
});

describe('resample', () => {
  const image = fc
    .record({ width: fc.integer({ min: 1, max: 24 }), height: fc.integer({ min: 1, max: 24 }) })
    .chain(({ width, height }) =>
      fc
        .uint8Array({ minLength: width * height * 3, maxLength: width * height * 3 })
        .map((data) => ({ width, height, data })),
    );
  const side = fc.integer({ min: 1, max: 40 });
  const interpolation = fc.constantFrom('bilinear' as const, 'bicubic' as const);

  it('computes a region as it is in the whole', () => {
    fc.assert(
      fc.property(
        image,
        side,
        side,
        fc.nat(),
        fc.nat(),
        interpolation,
        (source, width, height, x, y, kind) => {
          const size = { width, height };
          const whole = resample(source, size, { top: 0, left: 0, ...size }, kind);
          const [left, top] = [x % width, y % height];
          const part = resample(source, size, { top, left, width: width - left, height: height - top }, kind);
          for (let row = 0; row < part.height; row++) {
            const from = ((top + row) * width + left) * 3;
            expect(part.data.subarray(row * part.width * 3, (row + 1) * part.width * 3)).toEqual(
              whole.data.subarray(from, from + part.width * 3),
            );
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('keeps an image of the same size, and a flat colour flat', () => {
    fc.assert(
      fc.property(image, (source) => {
        const same = resample(
          source,
          source,
          { top: 0, left: 0, width: source.width, height: source.height },
          'bicubic',
        );
        expect(Buffer.compare(same.data, source.data)).toBe(0);
      }),
    );
    fc.assert(
      fc.property(side, side, side, side, fc.nat(255), interpolation, (width, height, w, h, value, kind) => {
        const flat = { width, height, data: new Uint8Array(width * height * 3).fill(value) };
        const out = resample(flat, { width: w, height: h }, { top: 0, left: 0, width: w, height: h }, kind);
        expect(out.data.every((byte) => byte === value)).toBe(true);
      }),
    );
  });

  it('pads with zeros where the region is larger than the image', () => {
    const one = { width: 1, height: 1, data: Uint8Array.of(9, 8, 7) };
    const padded = resample(one, one, { top: -1, left: -1, width: 3, height: 2 }, 'bilinear');
    expect([...padded.data]).toEqual([...Array.from({ length: 12 }, () => 0), 9, 8, 7, 0, 0, 0]);
  });
});

describe('createTransform', () => {
  it('knows its result’s size, where there is one', () => {
    expect(createTransform().outputSize).toEqual({ height: 224, width: 224 });
    expect(createTransform('imagenet1k_v2' as 'ImageNet1K_V2').preset).toBe('ImageNet1K_V2');
    expect(createTransform({ resize: { height: 10, width: 20 }, crop: null }).outputSize).toEqual({
      height: 10,
      width: 20,
    });
    expect(createTransform({ crop: null }).outputSize).toBeNull();
  });

  it.each([
    'resnet',
    { size: 256 },
    { resize: 0 },
    { resize: '256' },
    { crop: { height: 1 } },
    { crop: { height: 1, width: 1.5 } },
    { interpolation: 'lanczos' },
    { mean: [0, 0] },
    { std: [1, 0, 1] },
    { std: [1, NaN, 1] },
    { orientation: 'up' },
    { decode: 'draft' },
    { limitPixels: 0 },
  ])('refuses %j', (given) => {
    expect(() => createTransform(given as 'ImageNet1K_V1')).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    );
  });
});

describe('loadImage', () => {
  it('takes paths, file URLs and bytes', async () => {
    const [a, b, c] = await Promise.all([
      loadImage(photo),
      loadImage(pathToFileURL(photo)),
      loadImage(readFileSync(photo)),
    ]);
    expect(a.data).toEqual(b.data);
    expect(a.data).toEqual(c.data);
    expect(a).toMatchObject({ height: 224, width: 224, sourceWidth: 400, sourceHeight: 300 });
    expect(a.toTensor().dims).toEqual([1, 3, 224, 224]);
  });

  it('says why it cannot', async () => {
    await expect(loadImage('/no/such.jpg')).rejects.toMatchObject({
      code: 'IMAGE_NOT_FOUND',
      message: /ENOENT/,
    });
    await expect(loadImage(projectPath('src'))).rejects.toMatchObject({ code: 'IMAGE_UNREADABLE' });
    await expect(loadImage(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'))).rejects.toMatchObject({
      code: 'IMAGE_UNREADABLE',
    });
    await expect(loadImage(Buffer.from('BM......'))).rejects.toThrow(/BMP header/);
    await expect(loadImage(Buffer.from('plain text'))).rejects.toThrow(/not JPEG, .* or BMP/);
    await expect(loadImage('')).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    const small = createTransform({ limitPixels: 1000 });
    await expect(loadImage(photo, small)).rejects.toMatchObject({
      code: 'IMAGE_TOO_LARGE',
      message: /more than 1000 pixels/,
    });
  });
});

describe('formats', () => {
  it('are told by their first bytes', () => {
    expect(imageFormat(readFileSync(photo))).toBe('jpeg');
    expect(imageFormat(Buffer.from('GIF89a'))).toBe('gif');
    expect(imageFormat(Buffer.from('RIFF\0\0\0\0WEBP'))).toBe('webp');
    expect(imageFormat(new Uint8Array(0))).toBeUndefined();
  });
});
