/** Thumbnails. */
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { makeThumbnail } from '../../../src/photos/images/thumbnail.js';
import { fixturePath, projectPath } from '../../support/fixtures.js';

const sizeOf = async (bytes: Uint8Array): Promise<unknown> => {
  const { width, height, format } = await sharp(bytes).metadata();
  return { width, height, format };
};

describe('makeThumbnail', () => {
  it('fits the longer side, and does not enlarge', async () => {
    const bytes = await makeThumbnail(projectPath('examples/photos/sea/sea-0.jpg'), 96);
    expect(await sizeOf(bytes)).toEqual({ width: 96, height: 72, format: 'webp' });
    expect(bytes.length).toBeLessThan(5000);
    const small = await sharp({ create: { width: 9, height: 5, channels: 3, background: '#c33' } })
      .png()
      .toBuffer();
    const tiny = await makeThumbnail(small, 96);
    expect(await sizeOf(tiny)).toEqual({ width: 9, height: 5, format: 'webp' });
    const { data } = await sharp(tiny).raw().toBuffer({ resolveWithObject: true });
    [0xcc, 0x33, 0x33].forEach((level, i) => expect(Math.abs(data[i]! - level)).toBeLessThan(6));
  });

  it('fails with the errors of the image', async () => {
    await expect(makeThumbnail(fixturePath('preprocess/bad/truncated.jpg'), 64)).rejects.toMatchObject({
      code: 'IMAGE_TRUNCATED',
    });
    await expect(makeThumbnail('nowhere.jpg', 64)).rejects.toMatchObject({ code: 'IMAGE_NOT_FOUND' });
    await expect(makeThumbnail(fixturePath('preprocess/bad/bomb_32768x32768.png'), 64)).rejects.toMatchObject(
      { code: 'IMAGE_TOO_LARGE' },
    );
  });
});
