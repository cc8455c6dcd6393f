/** Several crops of a photo: torchvision's FiveCrop and TenCrop of PIL images, bit for bit. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { placeCrops } from '../../../../src/photos/images/pixels/crops.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { transformFromConfig } from '../../../../src/photos/images/configs/transform-from-config.js';
import { createTransform } from '../../../../src/photos/feeds/create-transform.js';
import type { TransformOptions } from '../../../../src/photos/images/transform/transform-options.js';
import { projectPath, sharedFixtures, sharedNote } from '../../../support/fixtures.js';

const PHOTO = projectPath('examples/photos/sea/sea-0.jpg');
const digest = (data: ArrayBufferView): string =>
  createHash('sha256')
    .update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
    .digest('hex');

interface Expected {
  readonly backends: Readonly<
    Record<
      'pil',
      {
        readonly images: Readonly<
          Record<
            string,
            {
              readonly rgb: {
                readonly pixel_values: {
                  readonly sha256: string;
                  readonly sha256_pillow13?: string;
                  readonly shape: number[];
                };
              };
            }
          >
        >;
      }
    >
  >;
}

describe.skipIf(sharedFixtures === undefined)(`crops as torchvision's${sharedNote}`, () => {
  const root = sharedFixtures ?? '';
  const read = <Json>(name: string): Json => JSON.parse(readFileSync(join(root, name), 'utf8')) as Json;
  for (const [name, crops] of [
    ['five-crop-256-224', 'five'],
    ['ten-crop-256-224', 'ten'],
  ] as const) {
    it(name, async () => {
      const { images } = read<{ images: Readonly<Record<string, string>> }>('patches/cases.json');
      const expected = Object.entries(read<Expected>(`patches/expected/${name}.json`).backends.pil.images);
      expect(expected.length).toBeGreaterThanOrEqual(16);
      for (const [image, { rgb }] of expected) {
        const { pixel_values: tensor } = (await loadImage(join(root, images[image]!), { crops })).toTensors();
        const { shape, sha256, sha256_pillow13: later } = rgb.pixel_values;
        expect([image, tensor!.dims], image).toEqual([image, shape]);
        expect([sha256, later], image).toContain(digest(tensor!.data as Float32Array));
      }
    });
  }
});

describe('crops', () => {
  const small = { resize: 128, crop: 96 } as const;

  it('of the image mirrored top to bottom are those of the ten-crop with vertical_flip', async () => {
    const ten = await loadImage(PHOTO, { ...small, crops: 'ten-vertical' });
    const rows = 96 * 96 * 3;
    const crop = (i: number): Uint8Array => ten.data.subarray(i * rows, (i + 1) * rows);
    const upsideDown = (data: Uint8Array): Uint8Array => {
      const pitch = 96 * 3;
      return Uint8Array.from(data, (_, i) => data[(95 - Math.floor(i / pitch)) * pitch + (i % pitch)]!);
    };
    // The top left of the mirrored image is the bottom left of the image.
    expect([5, 6, 7, 8].map((i) => digest(crop(i)))).toEqual(
      [2, 3, 0, 1].map((i) => digest(upsideDown(crop(i)))),
    );
  });

  it('round half a pixel in the centre after mirroring', () => {
    const cuts = placeCrops({ height: 4, width: 7 }, { height: 4, width: 4 }, 'ten', 'round');
    // 1.5 rounds to 2; mirrored that is column 1.
    expect([cuts[4]!.region.left, cuts[9]!.region.left]).toEqual([2, 1]);
  });

  it('are the same whole, in floats and channels last', async () => {
    const options: Partial<TransformOptions> = { ...small, crops: 'five' };
    const plain = (await loadImage(PHOTO, options)).toTensor();
    expect(plain.dims).toEqual([5, 3, 96, 96]);
    const last = (await loadImage(PHOTO, { ...options, layout: 'nhwc' })).toTensor();
    expect(last.dims).toEqual([5, 96, 96, 3]);
    const [row, pixel, channel] = [3, 17 * 96 + 5, 2];
    expect(last.data[(row * 96 * 96 + pixel) * 3 + channel]).toBe(
      plain.data[(row * 3 + channel) * 96 * 96 + pixel],
    );
    const floats = await loadImage(PHOTO, { ...options, resampler: 'torch-float' });
    const center = await loadImage(PHOTO, { ...small, resampler: 'torch-float' });
    expect(digest(floats.toTensor().data.subarray(4 * 3 * 96 * 96))).toBe(digest(center.toTensor().data));
  });

  it('refuse a smaller image, and options that do not go with them', async () => {
    await expect(loadImage(PHOTO, { resize: 95, crop: 96, crops: 'ten' })).rejects.toMatchObject({
      code: 'IMAGE_MISFIT',
      details: { source: PHOTO },
    });
    for (const options of [
      { crop: null, crops: 'five' },
      { cropPlace: 'start', crops: 'five' },
      { crops: 'eleven' },
      // A size has two numbers, as torchvision says of its own ("only two dimensions (h, w)").
      { crops: 'ten', crop: [96, 96, 96] },
      { crops: 'ten', crop: { height: 96, width: 96, depth: 96 } },
      { crops: 'five', crop: { height: 96, width: 0 } },
      { crops: 'five', resize: { height: 96, width: 96, depth: 3 } },
      { first: { resize: 300, crop: { height: 1, width: 1 } } },
    ] as const)
      expect(() => createTransform(options as unknown as Partial<TransformOptions>)).toThrow(
        expect.objectContaining({ code: 'OPTION_INVALID' }),
      );
    const stored = { resize: 128, crop: { height: 96, width: 96, depth: 96 }, crops: 'ten' };
    expect(() => transformFromConfig(stored)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });
});
