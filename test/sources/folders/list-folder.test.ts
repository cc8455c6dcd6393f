import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { listImages } from '../../../src/sources/folders/list-folder.js';
import type { SourceItem } from '../../../src/sources/items/source-item.js';
import { folderWith } from '../../support/sources.js';

async function list(folder: string): Promise<SourceItem[]> {
  const items = [];
  for await (const item of listImages(folder)) items.push(item);
  return items;
}
const paths = async (folder: string): Promise<(string | null)[]> =>
  (await list(folder)).map(({ path }) => path);

describe('listImages', () => {
  it('finds images by extension, of any case, in the order of the paths’ bytes', async () => {
    const names = [
      'b.jpg',
      'a/z.PNG',
      'a.jpg',
      'a/b/c.jpeg',
      'a-1.webp',
      'é.gif',
      '-dash.tiff',
      "it's & #1.jpg",
      'notes.txt',
      'jpg',
      'A.jpg',
    ];
    const folder = folderWith(...names);
    const images = names.filter((name) => name !== 'notes.txt' && name !== 'jpg');
    const expected = images.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(await paths(folder)).toEqual(expected);
  });

  it('ends on link loops, counts nothing twice, and follows links to the outside', async () => {
    const folder = folderWith('in/a.jpg');
    const outside = folderWith('b.jpg', 'deep/c.jpg');
    symlinkSync('..', join(folder, 'in/loop'));
    symlinkSync('../..', join(folder, 'in/above'));
    symlinkSync('in', join(folder, 'same'));
    symlinkSync('in/a.jpg', join(folder, 'again.jpg'));
    symlinkSync(outside, join(folder, 'out'));
    symlinkSync(outside, join(folder, 'out-again'));
    symlinkSync(join(outside, 'deep/c.jpg'), join(folder, 'linked.jpg'));
    expect(await paths(folder)).toEqual(['in/a.jpg', 'linked.jpg', 'out/b.jpg', 'out/deep/c.jpg']);
  });

  it('takes the first of two links to a folder, and a link that gives a hidden file its ending', async () => {
    const folder = folderWith('blobs/abc');
    const outside = folderWith('b.jpg');
    symlinkSync(outside, join(folder, 'z'));
    symlinkSync(outside, join(folder, 'm'));
    symlinkSync('blobs/abc', join(folder, 'photo.jpg'));
    expect(await paths(folder)).toEqual(['m/b.jpg', 'photo.jpg']);
  });

  it('lists a broken link and a name that is no text with their errors', async () => {
    const folder = folderWith('a.jpg');
    symlinkSync('nowhere.jpg', join(folder, 'b.jpg'));
    writeFileSync(
      Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0xff, 0xfe]), Buffer.from('.jpg')]),
      'x',
    );
    const items = await list(folder);
    expect(items.map(({ error }) => error?.code)).toEqual([undefined, 'IMAGE_NOT_FOUND', 'IMAGE_UNREADABLE']);
    expect(items[2]?.error?.details.reason).toContain('not UTF-8');
  });

  it('refuses what is no folder', async () => {
    const folder = folderWith('a.jpg');
    await expect(list(join(folder, 'a.jpg'))).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: /it is a file/,
    });
    await expect(list(join(folder, 'none'))).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: /ENOENT/,
    });
  });
});
