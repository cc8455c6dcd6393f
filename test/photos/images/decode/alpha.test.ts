/** Transparency and EXIF orientation: the pixels of Pillow and transformers by both doors, and what is counted. */
import { readFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { readMarks } from '../../../../src/photos/images/formats/format-table.js';
import type { Marks } from '../../../../src/photos/images/formats/marks.js';
import { onWhite } from '../../../../src/photos/images/pixels/on-white.js';
import { loadImage } from '../../../../src/photos/feeds/load-image.js';
import { fixturePath } from '../../../support/fixtures.js';

const files = JSON.parse(readFileSync(fixturePath('alpha/alpha.json'), 'utf8')) as Record<
  string,
  Marks & Readonly<Record<'drop' | 'white', string>>
>;

describe.each(Object.entries(files))('%s', (file, { drop, white, ...marks }) => {
  const bytes = readFileSync(fixturePath(`alpha/${file}`));

  it.each([
    ['drop', drop],
    ['white', white],
  ] as const)('has the pixels of the library with alpha: %s', async (alpha, expected) => {
    const { data } = await loadImage(bytes, { resize: null, crop: null, alpha });
    expect(createHash('sha256').update(data).digest('hex')).toBe(expected);
  });

  it('is counted as Pillow sees it', () => {
    expect(readMarks(bytes)).toEqual(marks);
  });

  it('is counted as nothing where its header is cut off, and never throws', () => {
    for (let length = 0; length < bytes.length; length += 7) readMarks(bytes.subarray(0, length));
    for (let at = 0; at < Math.min(bytes.length, 400); at++) {
      const mutant = Uint8Array.from(bytes);
      mutant[at]! ^= 0xff;
      readMarks(mutant);
    }
  });
});

describe('onWhite', () => {
  it('blends within one level of the exact value, and is exact at the ends', () => {
    for (let value = 0; value < 256; value += 5) {
      expect([onWhite(value, 0), onWhite(value, 255)]).toEqual([255, value]);
      for (let alpha = 0; alpha < 256; alpha += 3)
        expect(Math.abs(onWhite(value, alpha) - (value * alpha + 255 * (255 - alpha)) / 255)).toBeLessThan(1);
    }
  });
});
