/** BMPs compared with Pillow by hash, and hostile files. Covers bmp-header.ts, too. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readBmpHeader } from '../../../../src/photos/images/formats/bmp-header.js';
import { decodeImage } from '../../../../src/photos/images/decode/decode.js';
import { imageFormat } from '../../../../src/photos/images/formats/image-format.js';
import { TRANSFORM_PRESETS } from '../../../../src/photos/images/transform/transform-options.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { fixturePath } from '../../../support/fixtures.js';

interface Expected {
  readonly images: Readonly<
    Record<string, { readonly width: number; readonly height: number; readonly sha256: string }>
  >;
}

const OPTIONS = TRANSFORM_PRESETS.ImageNet1K_V1;
const expected = JSON.parse(readFileSync(fixturePath('bmp/expected.json'), 'utf8')) as Expected;
const imagePath = (name: string): string => fixturePath(`bmp/images/${name}`);

/** A sound file with some of its fields replaced. */
function forge(
  name: string,
  change: (view: DataView, bytes: Uint8Array) => void,
  endByte?: number,
): Uint8Array {
  const bytes = Uint8Array.from(readFileSync(imagePath(name)).subarray(0, endByte));
  change(new DataView(bytes.buffer), bytes);
  return bytes;
}

describe('BMP', () => {
  const images = Object.entries(expected.images);

  it('comes in many kinds', () => expect(images.length).toBeGreaterThan(60));

  it.each(images)('%s is Pillow’s', async (name, { width, height, sha256 }) => {
    const image = await decodeImage(imagePath(name), OPTIONS);
    expect(image).toMatchObject({ width, height, source: { width, height }, reduction: 1 });
    expect(createHash('sha256').update(image.data).digest('hex')).toBe(sha256);
  });

  it('goes through the transform', async () => {
    expect(await loadImage(imagePath('pillow_rgb.bmp'))).toMatchObject({ width: 224, sourceWidth: 37 });
  });

  it('scales channels with masks of other widths than Pillow supports', async () => {
    const image = await decodeImage(
      forge('rgb16_565.bmp', (view, bytes) => {
        [0x3, 0x7c, 0x8000].forEach((mask, i) => view.setUint32(54 + i * 4, mask, true));
        bytes.set([0b0111_1110, 0x80], view.getUint32(10, true) + 28 * 8);
      }),
      OPTIONS,
    );
    // 2 of 3, 31 of 31, 1 of 1; the stored rows begin at the bottom.
    expect([...image.data.subarray(0, 3)]).toEqual([170, 255, 255]);
  });

  it('is recognised without its file header by two fields', () => {
    const bytes = readFileSync(imagePath('pillow_rgb.dib'));
    expect(imageFormat(bytes)).toBe('bmp');
    expect(imageFormat(bytes.subarray(0, 15))).toBeUndefined();
    expect(imageFormat(Uint8Array.of(40, ...Array.from({ length: 60 }, () => 0)))).toBeUndefined();
  });
});

describe('a hostile BMP', () => {
  it.each<[string, Uint8Array, RegExp]>([
    ['two letters', Buffer.from('BM'), /too short for a BMP header/],
    ['half a header', readFileSync(imagePath('rgb24.bmp')).subarray(0, 40), /header is cut off/],
    ['a header of unknown size', forge('rgb24.bmp', (view) => view.setUint32(14, 41, true)), /41 bytes/],
    [
      'a header of 4 GB',
      forge('rgb24.bmp', (view) => view.setUint32(14, 0xffff_ffff, true)),
      /which is no known version/,
    ],
    ['no width', forge('rgb24.bmp', (view) => view.setUint32(18, 0, true)), /size of 0 × 9/],
    ['a width below 0', forge('rgb24.bmp', (view) => view.setInt32(18, -13, true)), /size of -13 × 9/],
    ['no height', forge('rgb24.bmp', (view) => view.setUint32(22, 0, true)), /size of 13 × 0/],
    ['2 bits per pixel', forge('pal4.bmp', (view) => view.setUint16(28, 2, true)), /bits per pixel/],
    [
      'JPEG inside',
      forge('rgb24.bmp', (view) => view.setUint32(30, 4, true)),
      /compression \(4\) is not supported/,
    ],
    [
      'runs of 24 bits',
      forge('rgb24.bmp', (view) => view.setUint32(30, 1, true)),
      /does not go with 24 bits/,
    ],
    ['masks of 8 bits', forge('pal8.bmp', (view) => view.setUint32(30, 3, true)), /does not go with 8 bits/],
    ['masks with gaps', forge('rgb16_565.bmp', (view) => view.setUint32(54, 0xf0f0, true)), /0xf0f0/],
    ['a mask too wide', forge('rgb32_masks0.bmp', (view) => view.setUint32(54, 0x7ff, true)), /0x7ff/],
    [
      'masks beyond the pixel',
      forge('rgb16_565.bmp', (view) => view.setUint32(54, 0x1f0000, true)),
      /0x1f0000/,
    ],
    ['no masks', readFileSync(imagePath('rgb16_565.bmp')).subarray(0, 60), /masks are cut off/],
    ['half a palette', readFileSync(imagePath('pal8.bmp')).subarray(0, 500), /palette is cut off/],
    [
      'a palette of 4 billion colours',
      forge('pal8.bmp', (view) => view.setUint32(46, 0xffff_ffff, true)),
      /4294967295 colours/,
    ],
    [
      'a colour outside the palette',
      forge('pal8_few.bmp', (view, bytes) => bytes.fill(50, view.getUint32(10, true))),
      /has colour 50, but its BMP palette has 50/,
    ],
    ['pixels cut off', readFileSync(imagePath('rgb24.bmp')).subarray(0, -2), /cut off/],
    [
      'pixels outside the file',
      forge('rgb24.bmp', (view) => view.setUint32(10, 0xffff_ffff, true)),
      /cut off/,
    ],
    ['runs cut off', readFileSync(imagePath('rle8_0.bmp')).subarray(0, -20), /cut off/],
    [
      'runs outside the file',
      forge('rle4_0.bmp', (view) => view.setUint32(10, 0xffff_ffff, true)),
      /cut off/,
    ],
    [
      'runs that end at once',
      forge('rle8_0.bmp', (view, bytes) => bytes.set([0, 1], view.getUint32(10, true))),
      /runs end before its pixels do/,
    ],
  ])('with %s is refused', async (_, bytes, message) => {
    const code = message.source.includes('cut off') ? 'IMAGE_TRUNCATED' : 'IMAGE_UNREADABLE';
    await expect(loadImage(bytes)).rejects.toMatchObject({ code, message });
  });

  it.each([
    [2 ** 31 - 1, -(2 ** 31)],
    [178_956_971, 1],
  ])('of %d × %d pixels is refused before memory is allocated', async (width, height) => {
    for (const name of ['pal1.bmp', 'rle8_0.bmp', 'rgb32.bmp']) {
      const before = process.memoryUsage().arrayBuffers;
      const bytes = forge(name, (view) => {
        view.setInt32(18, width, true);
        view.setInt32(22, height, true);
      });
      await expect(loadImage(bytes)).rejects.toMatchObject({ code: 'IMAGE_TOO_LARGE' });
      expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(10e6);
    }
  });

  it('with more pixels than its runs can hold is refused before memory is allocated', async () => {
    const bytes = forge('rle8_0.bmp', (view) => {
      view.setInt32(18, 10_000, true);
      view.setInt32(22, 17_000, true);
    });
    const before = process.memoryUsage().arrayBuffers;
    const short = bytes.subarray(0, readBmpHeader(bytes).dataOffset + 100);
    await expect(loadImage(short)).rejects.toMatchObject({ code: 'IMAGE_TRUNCATED' });
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(10e6);
  });

  it('is decoded or refused for any bytes', async () => {
    const names = Object.keys(expected.images);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...names),
        fc.array(fc.tuple(fc.nat(120), fc.nat(255)), { minLength: 1, maxLength: 4 }),
        fc.nat(400),
        async (name, changes, cut) => {
          const whole = readFileSync(imagePath(name));
          const bytes = Uint8Array.from(whole.subarray(0, cut < 40 ? whole.length - cut : whole.length));
          for (const [at, value] of changes) if (at + 2 < bytes.length) bytes[at + 2] = value;
          try {
            const image = await decodeImage(bytes, { ...OPTIONS, limitPixels: 1e6 });
            expect(image.data.length).toBe(image.height * image.width * 3);
          } catch (error) {
            expect(error).toMatchObject({
              code: expect.stringMatching(/^IMAGE_(UNREADABLE|TRUNCATED|TOO_LARGE)$/),
            });
          }
        },
      ),
      { numRuns: 1000 },
    );
  });
});
