/** Files that look like images and are not read, in every kind of source. */
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { describeUnread, UnreadFiles } from '../../../../src/datasets/sources/items/unread-files.js';
import { openSource } from '../../../../src/datasets/sources/open-source.js';
import { makeTar, makeZip } from '../../../support/archives.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { folderWith } from '../../../support/sources.js';

const NAMES = ['a.jpg', 'b.svg', 'deep/c.SVG', 'deep/d.cr2', 'notes.txt', 'e.jxl'];
const COUNTS = { '.cr2': 1, '.jxl': 1, '.svg': 2 };

async function unreadIn(source: string): Promise<Readonly<Record<string, number>>> {
  const opened = openSource(source);
  expect(opened.unread).toEqual({});
  // The second round starts again from zero.
  for (let round = 0; round < 2; round++) {
    const paths = [];
    for await (const { path } of opened) paths.push(path);
    expect(paths).toHaveLength(1);
  }
  return opened.unread;
}

describe('openSource', () => {
  it('counts them in folders, behind links once', async () => {
    const folder = folderWith(...NAMES);
    expect(await unreadIn(folder)).toEqual(COUNTS);
    symlinkSync('b.svg', join(folder, 'again.svg'));
    symlinkSync(join(folderWith('x.svg'), 'x.svg'), join(folder, 'outside.svg'));
    symlinkSync('nowhere.svg', join(folder, 'broken.svg'));
    expect(await unreadIn(folder)).toEqual({ ...COUNTS, '.svg': 3 });
  });

  it('counts symbolic links to what is listed under its own name', async () => {
    const folder = folderWith('pool/1.png', 'cat/notes.txt');
    symlinkSync('../pool/1.png', join(folder, 'cat/1.png'));
    expect(await unreadIn(join(folder, '**/*.png'))).toEqual({ 'symbolic link': 1 });
    symlinkSync('pool', join(folder, 'dog'));
    symlinkSync('..', join(folder, 'cat/up'));
    symlinkSync('cat/notes.txt', join(folder, 'notes.txt'));
    expect(await unreadIn(folder)).toEqual({ 'symbolic link': 3 });
  });

  it('counts them in archives', async () => {
    const scratch = scratchFolder();
    const files = NAMES.map((name) => ({ name, bytes: Buffer.from('x') }));
    const tar = await makeTar(files);
    const archives = { 'a.tar': tar, 'a.tar.gz': gzipSync(tar), 'a.zip': makeZip(files) };
    for (const [name, bytes] of Object.entries(archives)) {
      writeFileSync(join(scratch, name), bytes);
      expect(await unreadIn(join(scratch, name)), name).toEqual({ ...COUNTS, 'other file': 1 });
    }
    expect(await unreadIn(join(scratch, '?.tar'))).toEqual({ ...COUNTS, 'other file': 1 });
  });

  it('counts those that a pattern without extension matches', async () => {
    expect(await unreadIn(join(folderWith(...NAMES), '**/*'))).toEqual(COUNTS);
  });

  it('refuses a single one, saying what to do', () => {
    const file = join(folderWith('a.svg'), 'a.svg');
    expect(() => openSource(file)).toThrow(/files of this format are not read; to embed them, convert them/);
  });
});

describe('describeUnread', () => {
  it('is a sentence per extension', () => {
    const files = new UnreadFiles();
    for (const name of ['a.svg', 'b.SVG', 'c.dng']) files.add(name);
    expect(describeUnread(files.counts)).toEqual([
      '1 .dng file was skipped: to embed them, convert them to PNG or JPEG',
      '2 .svg files were skipped: to embed them, convert them to PNG or JPEG',
    ]);
    expect(describeUnread({ 'hard link': 2, 'symbolic link': 1 })).toEqual([
      expect.stringMatching(/^2 hard links were skipped: .* decompress it$/),
      expect.stringMatching(
        /^1 symbolic link was skipped: photos are embedded under the names of their files; /,
      ),
    ]);
    expect(describeUnread({ archive: 1, 'other file': 2 })).toEqual([
      expect.stringMatching(/^1 archive was skipped: /),
      expect.stringMatching(/^2 other files were skipped: /),
    ]);
    expect(describeUnread({ '.heic': 12 })[0]).toMatch(
      /^12 \.heic files were skipped: to read them, install .*libheif-js/,
    );
  });
});
