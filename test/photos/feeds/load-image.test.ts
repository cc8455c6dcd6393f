/** Loading images. Kinds of sources: formats/image-source.test.ts; pixels: preprocess.golden.test.ts. */
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { loadImage } from '../../../src/photos/feeds/load-image.js';
import { createTransform } from '../../../src/photos/feeds/create-transform.js';
import { projectPath } from '../../support/fixtures.js';

const photo = projectPath('examples/photos/sea/sea-0.jpg');

describe('loadImage', () => {
  it('takes paths, file URLs and bytes', async () => {
    const [a, b, c] = await Promise.all([
      loadImage(photo),
      loadImage(pathToFileURL(photo)),
      loadImage(readFileSync(photo)),
    ]);
    expect(a.data).toEqual(b.data);
    expect(a.data).toEqual(c.data);
    expect(a).toMatchObject({ height: 224, width: 224, sourceWidth: 400, sourceHeight: 300 });
    expect(a.toTensor().dims).toEqual([1, 3, 224, 224]);
  });

  it('fails with the reason', async () => {
    await expect(loadImage('/no/such.jpg')).rejects.toMatchObject({
      code: 'IMAGE_NOT_FOUND',
      message: expect.stringMatching(/ENOENT/),
    });
    await expect(loadImage(projectPath('src'))).rejects.toMatchObject({ code: 'IMAGE_UNREADABLE' });
    await expect(loadImage(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'))).rejects.toMatchObject({
      code: 'IMAGE_UNREADABLE',
    });
    await expect(loadImage(Buffer.from('BM......'))).rejects.toThrow(/BMP header/);
    await expect(loadImage(Buffer.from('plain text'))).rejects.toThrow(/not JPEG, .* or BMP/);
    await expect(loadImage('')).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    const small = createTransform({ limitPixels: 1000 });
    await expect(loadImage(photo, small)).rejects.toMatchObject({
      code: 'IMAGE_TOO_LARGE',
      message: expect.stringMatching(/more than 1000 pixels/),
    });
  });

  it('takes a transform, a preset’s name or options, and refuses anything else', async () => {
    const options = { resize: 100, crop: { height: 80, width: 90 } };
    const [a, b] = [await loadImage(photo, options), await loadImage(photo, createTransform(options))];
    expect(a).toMatchObject({ height: 80, width: 90, sourceWidth: 400, reduction: 1 });
    expect(Buffer.compare(a.data, b.data)).toBe(0);
    expect(await loadImage(photo, 'Squash224')).toMatchObject({ height: 224, width: 224 });
    expect(await loadImage(photo, {})).toMatchObject({ height: 224, width: 224 });
    for (const wrong of [null, 7, 'resnet', { size: 8 }, [8]])
      await expect(loadImage(photo, wrong as object)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});
