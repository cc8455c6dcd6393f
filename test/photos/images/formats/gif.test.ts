/** GIFs with transparency, and with frames smaller than the image, compared with Pillow by hash. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeImage } from '../../../../src/photos/images/decode/decode.js';
import { readGifFrame } from '../../../../src/photos/images/formats/gif.js';
import { TRANSFORM_PRESETS } from '../../../../src/photos/images/transform/transform-options.js';
import { fixturePath } from '../../../support/fixtures.js';

interface Expected {
  readonly images: Readonly<
    Record<string, { readonly width: number; readonly height: number; readonly sha256: string }>
  >;
}

const EXACT = TRANSFORM_PRESETS.ImageNet1K_V1;
const expected = JSON.parse(readFileSync(fixturePath('gif/expected.json'), 'utf8')) as Expected;
const read = (name: string): Buffer => readFileSync(fixturePath(`gif/images/${name}`));

describe('GIF', () => {
  it.each(Object.entries(expected.images))('%s is Pillow’s', async (name, { width, height, sha256 }) => {
    const bytes = read(name);
    const before = Buffer.from(bytes);
    const image = await decodeImage(bytes, EXACT);
    expect(image).toMatchObject({ width, height });
    expect(createHash('sha256').update(image.data).digest('hex')).toBe(sha256);
    expect(bytes.equals(before)).toBe(true);
  });

  it('applies the limit to the whole image, not only to its first frame', async () => {
    const small = { ...EXACT, limitPixels: 640 * 480 - 1 };
    await expect(decodeImage(read('screen_640x480.gif'), small)).rejects.toMatchObject({
      code: 'IMAGE_TOO_LARGE',
    });
  });

  it('is truncated if it ends before its first frame', async () => {
    for (const end of [6, 13, 40]) {
      const cut = read('transparent.gif').subarray(0, end);
      await expect(decodeImage(cut, EXACT)).rejects.toMatchObject({ code: 'IMAGE_TRUNCATED' });
    }
  });

  it('ends on any bytes', () => {
    const whole = read('transparent_comment.gif');
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(100), (noise, cut) => {
        const frame = readGifFrame(Buffer.concat([whole.subarray(0, cut), noise]));
        return frame === undefined || frame.outside.every((value) => value >= 0);
      }),
    );
  });
});
