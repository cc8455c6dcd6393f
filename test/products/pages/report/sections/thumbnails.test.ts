/** The pictures of a report, within the room that they have. */
import { describe, expect, it } from 'vitest';
import {
  findImageFolder,
  makeThumbnails,
} from '../../../../../src/products/pages/report/sections/thumbnails.js';
import { projectPath } from '../../../../support/fixtures.js';

const folder = projectPath('examples/photos');
const paths = [0, 1, 2, 3].flatMap((i) => ['sea', 'city', 'dunes'].map((name) => `${name}/${name}-${i}.jpg`));
const images = [...paths, 'sea/gone.jpg', '../photos/sea/sea-0.jpg', null].map((path, row) => ({
  path,
  row,
  width: null,
  height: null,
}));
const proceed = (): Promise<void> => Promise.resolve();

describe('makeThumbnails', () => {
  it('makes one of each image that can be read', async () => {
    const { pictures, unreadable, leftOut } = await makeThumbnails(images, folder, 1e6, proceed);
    expect(pictures.map((picture) => picture !== null)).toEqual(images.map((_, i) => i < 12 || i === 13));
    expect({ unreadable, leftOut }).toEqual({ unreadable: 2, leftOut: 0 });
    expect(pictures[13]).toBe(pictures[0]);
  });

  it('stays within the room, with pictures from all over the list', async () => {
    const all = await makeThumbnails(images, folder, 1e6, proceed);
    const total = all.pictures.reduce((sum, picture) => sum + (picture?.length ?? 0), 0);
    const some = await makeThumbnails(images, folder, total / 2, proceed);
    const kept = some.pictures.flatMap((picture, i) => (picture === null ? [] : [i]));
    expect(kept.reduce((sum, i) => sum + some.pictures[i]!.length, 0)).toBeLessThanOrEqual(total / 2);
    expect(kept.length).toBeGreaterThan(2);
    expect(Math.max(...kept)).toBeGreaterThan(7);
    expect(some.leftOut + some.unreadable + kept.length).toBe(images.length);
    expect(await makeThumbnails(images, folder, 0, proceed)).toMatchObject({ leftOut: images.length });
  });

  it('makes none without a folder', async () => {
    const { pictures } = await makeThumbnails(images, undefined, 1e6, proceed);
    expect(pictures).toEqual(images.map(() => null));
  });
});

describe('findImageFolder', () => {
  it('prefers the given folder, forgives a recorded one that is gone', async () => {
    expect(await findImageFolder(folder, 'elsewhere')).toBe(folder);
    expect(await findImageFolder(undefined, folder)).toBe(folder);
    expect(await findImageFolder(undefined, 'elsewhere')).toBeUndefined();
    await expect(findImageFolder('elsewhere', folder)).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
  });
});
