/** `decode: 'fast'`: by how much it reduces, and that its pixels are those of Pillow's draft mode. */
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, readFileSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeImage } from '../../../../src/photos/images/decode/decode.js';
import { resizedSize } from '../../../../src/photos/images/pixels/geometry.js';
import { TRANSFORM_PRESETS } from '../../../../src/photos/images/transform/transform-options.js';
import { chooseReduction, sourceSize } from '../../../../src/photos/images/decode/reduction.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { createTransform } from '../../../../src/photos/feeds/create-transform.js';
import { fixturePath, scratchFolder } from '../../../support/fixtures.js';

interface Reduced {
  readonly images: Readonly<
    Record<
      string,
      Readonly<Record<string, { readonly width: number; readonly height: number; readonly sha256: string }>>
    >
  >;
}

const EXACT = TRANSFORM_PRESETS.ImageNet1K_V1;
const folder = scratchFolder();
const imagePath = (name: string): string => fixturePath(`preprocess/images/${name}`);
const { images } = JSON.parse(readFileSync(fixturePath('preprocess/reduced.json'), 'utf8')) as Reduced;

describe('chooseReduction', () => {
  it('chooses the largest reduction that leaves twice the size along both sides', () => {
    const choose = (width: number, height: number): number => chooseReduction({ width, height }, 256, false);
    expect(choose(500, 375)).toBe(1);
    expect(choose(1366, 1023)).toBe(1);
    expect(choose(1366, 1024)).toBe(2);
    expect(choose(4000, 3000)).toBe(4);
    expect(choose(6000, 4096)).toBe(8);
    expect(choose(60_000, 1000)).toBe(1);
    expect(chooseReduction({ width: 9000, height: 9000 }, null, false)).toBe(1);
    // For a size, along both sides, even if the image is turned.
    const wide = { height: 100, width: 400 };
    expect(chooseReduction({ width: 3200, height: 800 }, wide, false)).toBe(4);
    expect(chooseReduction({ width: 3200, height: 800 }, wide, true)).toBe(1);
    // Reduced to 500 × 500, whose sides do not tell whether it was turned.
    expect(chooseReduction({ width: 4001, height: 4000 }, 128, true)).toBe(1);
    expect(chooseReduction({ width: 4000, height: 4000 }, 128, true)).toBe(8);
    expect(chooseReduction({ width: 4001, height: 4000 }, 128, false)).toBe(8);
  });

  it('holds for all sizes', () => {
    const side = fc.integer({ min: 1, max: 5000 });
    fc.assert(
      fc.property(side, side, fc.integer({ min: 1, max: 300 }), (width, height, resize) => {
        const target = resizedSize({ width, height }, resize);
        const fits = (reduction: 2 | 4 | 8): boolean => {
          const left = (whole: number): number => Math.floor(whole / reduction);
          return left(width) >= 2 * target.width && left(height) >= 2 * target.height;
        };
        const chosen = chooseReduction({ width, height }, resize, false);
        expect(chosen).toBe(([8, 4, 2] as const).find(fits) ?? 1);
      }),
    );
  });
});

describe('sourceSize', () => {
  const size = { height: 301, width: 403 };

  it('recognises turned images, and other images', () => {
    expect(sourceSize(size, { height: 150, width: 201 }, 2)).toEqual(size);
    expect(sourceSize(size, { height: 151, width: 202 }, 2)).toEqual(size);
    expect(sourceSize(size, { height: 201, width: 150 }, 2)).toEqual({ height: 403, width: 301 });
    expect(() => sourceSize(size, { height: 150, width: 203 }, 2)).toThrow(/changed/);
  });
});

describe('decode: fast', () => {
  it.each(Object.keys(images))('%s is reduced as Pillow’s draft does it', async (name) => {
    for (const [factor, { width, height, sha256 }] of Object.entries(images[name]!)) {
      // Half of what the factor leaves, so that it is the largest possible one.
      const resize = { height: Math.floor(height / 2), width: Math.floor(width / 2) };
      const reduced = await decodeImage(imagePath(name), { ...EXACT, decode: 'fast', resize });
      expect(reduced).toMatchObject({ width, height, reduction: Number(factor) });
      expect(createHash('sha256').update(reduced.data).digest('hex')).toBe(sha256);
      const exact = await decodeImage(imagePath(name), EXACT);
      expect(reduced.source).toEqual(exact.source);
      expect(exact).toMatchObject({ ...exact.source, reduction: 1 });
    }
  });

  it('gives the size that the whole image would have', async () => {
    // 500 × 375 reduced by 4 is 125 × 93, whose longer side would become 59 instead of 58.
    for (const name of ['jpeg_420_500x375.jpg', 'exif_6_300x400.jpg']) {
      const exact = createTransform({ resize: 44, crop: null });
      const fast = createTransform({ resize: 44, crop: null, decode: 'fast' });
      const [a, b] = [await loadImage(imagePath(name), exact), await loadImage(imagePath(name), fast)];
      expect(b.reduction).toBe(name.startsWith('jpeg') ? 4 : 2);
      expect({ height: b.height, width: b.width }).toEqual({ height: a.height, width: a.width });
      expect([b.sourceHeight, b.sourceWidth]).toEqual([a.sourceHeight, a.sourceWidth]);
    }
  });

  it('reduces WebP', async () => {
    const options = { resize: 32, crop: null } as const;
    const exact = await loadImage(imagePath('own.webp'), createTransform(options));
    const fast = await loadImage(imagePath('own.webp'), createTransform({ ...options, decode: 'fast' }));
    expect(fast).toMatchObject({ height: exact.height, width: exact.width });
    expect(fast.reduction).toBeGreaterThan(1);
    expect(meanDifference(fast.data, exact.data)).toBeLessThan(3);
  });

  it('turns images upright', async () => {
    const options = { resize: 32, crop: null, orientation: 'exif' } as const;
    const exact = await loadImage(imagePath('exif_6_300x400.jpg'), createTransform(options));
    const fast = await loadImage(
      imagePath('exif_6_300x400.jpg'),
      createTransform({ ...options, decode: 'fast' }),
    );
    expect(fast).toMatchObject({ reduction: 4, height: exact.height, width: exact.width });
    expect([fast.sourceHeight, fast.sourceWidth]).toEqual([exact.sourceHeight, exact.sourceWidth]);
    expect(meanDifference(fast.data, exact.data)).toBeLessThan(3);
  });

  it('leaves other formats and small images exact', async () => {
    for (const name of ['png_rgb_333x500.png', 'own.gif', 'own_lzw.tiff']) {
      expect(
        await loadImage(imagePath(name), createTransform({ decode: 'fast', resize: 16, crop: 16 })),
      ).toEqual({
        ...(await loadImage(imagePath(name), createTransform({ resize: 16, crop: 16 }))),
        toTensor: expect.any(Function),
        toTensors: expect.any(Function),
      });
    }
    const small = await loadImage(imagePath('jpeg_420_500x375.jpg'), createTransform({ decode: 'fast' }));
    expect(small.data).toEqual((await loadImage(imagePath('jpeg_420_500x375.jpg'))).data);
  });

  it('reads files of any name, and bytes, and leaves no file behind', async () => {
    const fast = createTransform({ decode: 'fast', resize: 32, crop: 32 });
    const expected = await loadImage(imagePath('own_444.jpg'), fast);
    expect(expected.reduction).toBe(4);
    const names = ['a[1].jpg', 'b[shrink=8].jpg', 'c.jpg[shrink=8]', '[', ']', 'd,e=f.jpg', "q'ü 100%.jpg"];
    for (const name of names) {
      const path = join(folder, name);
      copyFileSync(imagePath('own_444.jpg'), path);
      expect((await loadImage(path, fast)).data, name).toEqual(expected.data);
    }
    expect((await loadImage(readFileSync(imagePath('own_444.jpg')), fast)).data).toEqual(expected.data);
    const left = readdirSync(tmpdir()).filter((name) => name.startsWith('tapir-image-'));
    expect(left.filter((name) => existsSync(join(tmpdir(), name, 'image')))).toEqual([]);
  });

  it('refuses what exact mode refuses', async () => {
    const fast = createTransform({ decode: 'fast', resize: 32, crop: 32 });
    const cut = readFileSync(fixturePath('preprocess/bad/truncated.jpg'));
    await expect(loadImage(cut, fast)).rejects.toMatchObject({ code: 'IMAGE_TRUNCATED' });
    // By the size of the whole image, of which the decoder would return a sixteenth.
    const small = createTransform({ decode: 'fast', resize: 32, crop: 32, limitPixels: 100_000 });
    await expect(loadImage(imagePath('jpeg_420_500x375.jpg'), small)).rejects.toMatchObject({
      code: 'IMAGE_TOO_LARGE',
    });
  });
});

function meanDifference(a: Uint8Array, b: Uint8Array): number {
  return a.reduce((sum, value, i) => sum + Math.abs(value - b[i]!), 0) / a.length;
}
