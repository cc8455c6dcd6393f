import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  holdOut,
  readClassFolders,
  type ClassFolders,
} from '../../../../src/learn/train/folder/class-folders.js';
import { scratchFolder } from '../../../support/fixtures.js';

function folderOf(...files: string[]): string {
  const folder = mkdtempSync(join(scratchFolder(), 'classes-'));
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    if (!file.endsWith('/')) writeFileSync(join(folder, file), '');
    else mkdirSync(join(folder, file), { recursive: true });
  }
  return folder;
}

const many = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${name}/${i}.jpg`);

describe('class folders', () => {
  it('are in the order of the bytes of their names, as in ImageFolder', async () => {
    // With a slash after them, "a-b" would come before "a".
    const folder = folderOf('a/1.jpg', 'a-b/1.jpg', 'B/1.png', 'é/1.jpg', 'z/1.jpg', 'con 1/deep/er/2.webp');
    const { classes, images, warnings } = await readClassFolders(folder);
    expect(classes).toEqual(['B', 'a', 'a-b', 'con 1', 'z', 'é']);
    expect(images.map(({ path, label }) => [path, label])).toEqual([
      ['B/1.png', 0],
      ['a-b/1.jpg', 2],
      ['a/1.jpg', 1],
      ['con 1/deep/er/2.webp', 3],
      ['z/1.jpg', 4],
      ['é/1.jpg', 5],
    ]);
    expect(warnings).toEqual([]);
  });

  it('leaves out what is no image of a class, and says so', async () => {
    const files = ['a/1.jpg', 'b/1.jpg', 'b/raw.cr2', 'b/notes.txt', 'lost.jpg', '.git/logo.png', '.cache/'];
    const { classes, images, warnings } = await readClassFolders(folderOf(...files));
    expect(classes).toEqual(['a', 'b']);
    expect(images).toHaveLength(2);
    expect(warnings).toEqual([
      '1 image left out, outside class folders: "lost.jpg"',
      expect.stringMatching(/^1 \.cr2 file was skipped/),
    ]);
  });

  it.each([
    [['a/1.jpg', 'b/1.jpg', 'c/', 'd/readme.txt'], /class folders without images: "c", "d"; fill or remove/],
    [['a/1.jpg'], /"a" is its only class; two or more/],
    [['1.jpg', '2.jpg'], /no class folders; put the images of each class into its own folder/],
    [[], /no class folders/],
  ])('refuses %j', async (files, message) => {
    await expect(readClassFolders(folderOf(...files))).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(message),
    });
  });

  it('refuses what is no folder', async () => {
    const missing = join(folderOf(), 'missing');
    await expect(readClassFolders(missing)).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/missing" cannot be trained on: .*ENOENT/),
    });
  });

  it('gives the images of another folder the same classes', async () => {
    const known = ['a', 'b', 'c'];
    const { classes, images } = await readClassFolders(folderOf('c/1.jpg', 'a/2.jpg'), known);
    expect(classes).toEqual(known);
    expect(images.map(({ label }) => label)).toEqual([0, 2]);
    await expect(readClassFolders(folderOf('a/1.jpg', 'd/1.jpg'), known)).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/class "d" is not among the classes in training: "a", "b", "c"/),
    });
  });
});

describe('held-out images', () => {
  const read = (): Promise<ClassFolders> =>
    readClassFolders(folderOf(...many('a', 10), ...many('b', 4), ...many('c', 2), ...many('d', 1)));

  it('are a share of each class, and one at least stays and one at least leaves', async () => {
    const found = await read();
    const { training, heldOut, warnings } = holdOut(found, 0.3, 5);
    const count = (images: readonly { label: number }[]): number[] =>
      found.classes.map((_, label) => images.filter((image) => image.label === label).length);
    expect(count(heldOut)).toEqual([3, 1, 1, 0]);
    expect(count(training)).toEqual([7, 3, 1, 1]);
    expect(warnings).toEqual([expect.stringMatching(/single image.*"d"/)]);
    expect(count(holdOut(found, 0.99, 5).training)).toEqual([1, 1, 1, 1]);
    expect(holdOut(found, 0, 5)).toEqual({ training: found.images, heldOut: [], warnings: [] });
  });

  it('depend on the seed alone', async () => {
    const found = await read();
    const pathsOf = (seed: number): string[] => holdOut(found, 0.3, seed).heldOut.map(({ path }) => path);
    expect(pathsOf(5)).toEqual(pathsOf(5));
    expect(new Set([1, 2, 3, 4].map((seed) => pathsOf(seed).join())).size).toBeGreaterThan(1);
  });
});
