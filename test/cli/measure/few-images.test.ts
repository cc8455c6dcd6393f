/** Few images are counted without listing all of them, and what is not plain counts as many. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hasFewImages } from '../../../src/cli/measure/few-images.js';
import { scratchFolder } from '../../support/fixtures.js';

function folderOf(count: number, extension = 'jpg'): string {
  const folder = scratchFolder();
  mkdirSync(join(folder, 'deep'));
  for (let i = 0; i < count; i++) writeFileSync(join(folder, i % 2 ? 'deep' : '', `${i}.${extension}`), '');
  return folder;
}

describe('few images', () => {
  it.each([
    [0, 'jpg', true],
    [63, 'JPG', true],
    [64, 'jpg', false],
    [200, 'txt', true],
    [5000, 'txt', false],
  ])('%i files of .%s: %s', async (count, extension, expected) => {
    expect(await hasFewImages(folderOf(count, extension))).toBe(expected);
  });

  it('are not what cannot be counted', async () => {
    const folder = folderOf(1);
    expect(await hasFewImages(join(folder, '0.jpg'))).toBe(false);
    expect(await hasFewImages(join(folder, 'missing'))).toBe(false);
    symlinkSync(folder, join(folder, 'loop'));
    expect(await hasFewImages(folder)).toBe(false);
  });
});
