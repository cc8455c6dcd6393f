/**
 * Which part of a file is decoded, and when the decoder is loaded. The pixels: ../preprocess.golden.test.ts; damaged files:
 * ../formats/headers.test.ts, mutants.test.ts; the fast mode: reduction.test.ts.
 */
import { readFileSync } from 'node:fs';
import sharp, { type Create } from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { decodeImage } from '../../../../src/photos/images/decode/decode.js';
import { decoderVersions } from '../../../../src/photos/images/decode/open-sharp.js';
import { TRANSFORM_PRESETS } from '../../../../src/photos/images/transform/transform-options.js';
import { smallImages } from '../../../support/bombs.js';
import { fixturePath } from '../../../support/fixtures.js';

const OPTIONS = TRANSFORM_PRESETS.ImageNet1K_V1;
let small: Readonly<Record<string, Buffer>> = {};
beforeAll(async () => {
  small = await smallImages();
});

const solid = (background: string): Create => ({ width: 6, height: 4, channels: 4, background });

describe('decodeImage', () => {
  it('does not load sharp for what this package decodes itself', async () => {
    await decodeImage(small['jpeg']!, OPTIONS);
    await decodeImage(small['bmp']!, OPTIONS);
    await expect(decodeImage(Buffer.from('text'), OPTIONS)).rejects.toThrow(/its format is not JPEG/);
    await expect(decodeImage(small['png']!, { ...OPTIONS, limitPixels: 5 })).rejects.toThrow(/5 pixels/);
    expect(decoderVersions()).toBeUndefined();
    await decodeImage(small['png']!, OPTIONS);
    expect(decoderVersions()).toEqual({
      sharp: expect.stringMatching(/^\d+\.\d+/),
      libvips: expect.stringMatching(/^\d+\.\d+/),
    });
  });

  it('allows as many pixels as the limit says, in every format', async () => {
    for (const [name, bytes] of Object.entries(small)) {
      const image = await decodeImage(bytes, { ...OPTIONS, limitPixels: 40 * 30 });
      expect([name, image.width, image.height, image.data.length]).toEqual([name, 40, 30, 3600]);
      const less = decodeImage(bytes, { ...OPTIONS, limitPixels: 40 * 30 - 1 });
      await expect(less, name).rejects.toMatchObject({
        code: 'IMAGE_TOO_LARGE',
        details: { limitPixels: 1199 },
      });
    }
  });

  it.each(['webp', 'gif', 'tiff'] as const)('takes the first frame of several: %s', async (format) => {
    const frames = await Promise.all(
      ['#f00', '#00f'].map((colour) =>
        sharp({ create: solid(colour) })
          .png()
          .toBuffer(),
      ),
    );
    const several = await sharp(frames, { join: { animated: true } })
      .toFormat(format, { lossless: true, compression: 'deflate' })
      .toBuffer();
    const { width, height, data } = await decodeImage(several, OPTIONS);
    expect([width, height, ...data.subarray(0, 3)]).toEqual([6, 4, 255, 0, 0]);
  });

  it('drops alpha without blending', async () => {
    const half = await sharp({ create: solid('rgba(200, 100, 50, 0.5)') })
      .png()
      .toBuffer();
    expect([...(await decodeImage(half, OPTIONS)).data.subarray(0, 3)]).toEqual([200, 100, 50]);
  });

  it('turns images upright if asked to', async () => {
    const path = fixturePath('preprocess/images/exif_6_300x400.jpg');
    const [stored, upright] = [
      await decodeImage(path, OPTIONS),
      await decodeImage(path, { ...OPTIONS, orientation: 'exif' }),
    ];
    expect(stored.source).toEqual({ height: upright.width, width: upright.height });
    expect(upright.source).toEqual({ height: upright.height, width: upright.width });
  });

  it('says the same about images that fail at the same moment', async () => {
    const crc = readFileSync(fixturePath('preprocess/bad/crc.png'));
    const cut = small['webp']!.subarray(0, 40);
    const alone = await decodeImage(crc, OPTIONS).catch((error: Error) => error.message);
    const messages = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        decodeImage(i % 2 ? crc : cut, OPTIONS).catch((error: Error) => error.message),
      ),
    );
    expect(new Set(messages.filter((_, i) => i % 2))).toEqual(new Set([alone]));
    expect(new Set(messages).size).toBe(2);
  });
});
