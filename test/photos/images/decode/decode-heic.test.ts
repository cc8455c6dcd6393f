/** HEIC, compared with pillow-heif by hash. Needs the optional package libheif-js, which is a development dependency. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeImage } from '../../../../src/photos/images/decode/decode.js';
import { imageFormat } from '../../../../src/photos/images/formats/image-format.js';
import { TRANSFORM_PRESETS } from '../../../../src/photos/images/transform/transform-options.js';
import { fixturePath } from '../../../support/fixtures.js';

interface Expected {
  readonly images: Readonly<
    Record<string, { readonly width: number; readonly height: number; readonly sha256: string }>
  >;
}

const EXACT = TRANSFORM_PRESETS.ImageNet1K_V1;
const expected = JSON.parse(readFileSync(fixturePath('heic/expected.json'), 'utf8')) as Expected;
const read = (name: string): Buffer => readFileSync(fixturePath(`heic/images/${name}`));

describe('HEIC', () => {
  it.each(Object.entries(expected.images))(
    '%s is pillow-heif’s, bit for bit',
    async (name, { width, height, sha256 }) => {
      const bytes = read(name);
      const before = Buffer.from(bytes);
      expect(imageFormat(bytes)).toBe('heic');
      for (const orientation of ['ignore', 'exif'] as const) {
        const image = await decodeImage(bytes, { ...EXACT, orientation });
        expect(image).toMatchObject({ width, height, source: { width, height }, reduction: 1 });
        expect(createHash('sha256').update(image.data).digest('hex')).toBe(sha256);
      }
      expect(bytes.equals(before)).toBe(true);
    },
  );

  it('is decoded from a path, and whole in fast mode', async () => {
    const path = fixturePath('heic/images/grid_300x200.heic');
    const image = await decodeImage(path, { ...EXACT, decode: 'fast', resize: 20 });
    expect(image).toMatchObject({ width: 300, height: 200, reduction: 1 });
  });

  it('is too large beyond the limit', async () => {
    const small = { ...EXACT, limitPixels: 160 * 120 - 1 };
    await expect(decodeImage(read('plain_160x120.heic'), small)).rejects.toMatchObject({
      code: 'IMAGE_TOO_LARGE',
    });
    const enough = { ...EXACT, limitPixels: 160 * 120 };
    await expect(decodeImage(read('plain_160x120.heic'), enough)).resolves.toBeDefined();
  });

  it('is truncated wherever the file ends too early', async () => {
    const whole = read('plain_160x120.heic');
    for (const end of [12, 24, 100, 300, 500, whole.length >> 1, whole.length - 1])
      await expect(decodeImage(whole.subarray(0, end), EXACT), String(end)).rejects.toMatchObject({
        code: 'IMAGE_TRUNCATED',
      });
    await expect(decodeImage(read('cut_off.heic'), EXACT)).rejects.toMatchObject({ code: 'IMAGE_TRUNCATED' });
  });

  it('ends on damaged bytes, and decodes the next image', async () => {
    const whole = read('plain_160x120.heic');
    await fc.assert(
      fc.asyncProperty(
        fc.nat(whole.length - 13),
        fc.uint8Array({ minLength: 1, maxLength: 40 }),
        async (at, noise) => {
          const bytes = Buffer.from(whole);
          bytes.set(noise.subarray(0, bytes.length - at - 12), at + 12);
          const code = await decodeImage(bytes, EXACT).then(
            () => 'IMAGE_decoded',
            (error: unknown) => (error as { code: string }).code,
          );
          expect(code).toMatch(/^IMAGE_/);
        },
      ),
      { numRuns: 60 },
    );
    const { data } = await decodeImage(whole, EXACT);
    expect(createHash('sha256').update(data).digest('hex')).toBe(
      expected.images['plain_160x120.heic']!.sha256,
    );
  });
});
