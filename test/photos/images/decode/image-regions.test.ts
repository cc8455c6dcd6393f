/** Pictures that are decoded into a temporary file, where there is no room for it. */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import sharp from 'sharp';
import { afterAll, expect, it, vi } from 'vitest';
import { openPicture } from '../../../../src/photos/images/decode/picture.js';
import { scratchFolder } from '../../../support/fixtures.js';

const place = scratchFolder();
afterAll(() => vi.unstubAllEnvs());
const options = { orientation: 'exif', alpha: 'drop', limitPixels: 1000 } as const;
const background = { r: 1, g: 2, b: 3 };
const bytes = await sharp({ create: { width: 4200, height: 4200, channels: 3, background } })
  .png()
  .toBuffer();
const unwritable = { code: 'OUTPUT_UNWRITABLE', message: expect.stringContaining(`"${place}`) as string };

it('the picture is not to blame, but the disk', async () => {
  vi.stubEnv('TMPDIR', join(place, 'nowhere'));
  await expect(openPicture(bytes, options)).rejects.toMatchObject(unwritable);
});

it('nor is it if the file is gone when it is read', async () => {
  vi.stubEnv('TMPDIR', place);
  const picture = await openPicture(bytes, options);
  const region = { top: 0, left: 0, height: 9, width: 9 };
  const regions = picture.scaled(picture, { interpolation: 'bilinear', resampler: 'pillow' });
  expect((await regions.read(region)).data[1]).toBe(2);
  const [folder] = readdirSync(place);
  rmSync(join(place, folder!, 'picture.tif'));
  await expect(regions.read(region)).rejects.toMatchObject(unwritable);
  await picture.close();
  expect(readdirSync(place)).toEqual([]);
  // A damaged picture still is.
  await expect(openPicture(bytes.subarray(0, bytes.length / 2), options)).rejects.toMatchObject({
    code: 'IMAGE_TRUNCATED',
  });
});
