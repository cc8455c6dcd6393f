import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openSource } from '../../../../src/datasets/sources/open-source.js';
import { makeZip } from '../../../support/archives.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { bytesOf, itemsOf, pathsOf, untilError } from '../../../support/sources.js';

const folder = scratchFolder();
let count = 0;

function write(content: Uint8Array, name = `${count++}.zip`): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

const text = Buffer.from('a text that is repeated, a text that is repeated, a text that is repeated');
const stamp = { sizeBytes: text.length, modifiedMs: Date.UTC(2024, 4, 6, 12, 30, 10), sha256: null };

describe('a zip', () => {
  it('gives its images in its order, stored or deflated', async () => {
    const file = write(
      makeZip([
        { name: 'ü/b.jpg', bytes: text },
        { name: 'notes.txt', bytes: text },
        { name: 'folder.jpg/', bytes: Buffer.alloc(0) },
        { name: '__MACOSX/._b.jpg', bytes: text },
        { name: '../a.PNG', bytes: text, isDeflated: true },
        { name: '/empty.gif', bytes: Buffer.alloc(0), isDeflated: true },
      ]),
    );
    const items = await itemsOf(file);
    expect(items.map(({ path }) => path)).toEqual(['ü/b.jpg', '../a.PNG', '/empty.gif']);
    expect(items[0]!.stamp).toEqual(stamp);
    expect(await Promise.all(items.map(async (item) => String(await bytesOf(item))))).toEqual([
      String(text),
      String(text),
      '',
    ]);
    expect(openSource(file).description).toEqual({ kind: 'zip', location: file });
    expect(await pathsOf(join(folder, '*.zip'))).toContain('0.zip/ü/b.jpg');
  });

  it('keeps control characters of names that are not marked as UTF-8', async () => {
    const zip = makeZip([{ name: 'tab\t1.jpg', bytes: Buffer.from('x') }]);
    zip.writeUInt16LE(0, 6);
    zip.writeUInt16LE(0, zip.indexOf('PK\x01\x02', 0, 'latin1') + 8);
    expect(await pathsOf(write(zip))).toEqual(['tab\t1.jpg']);
  });

  it('lists what it cannot read with its error', async () => {
    const file = write(
      makeZip([
        { name: 'secret.jpg', bytes: text, isEncrypted: true },
        { name: 'lzma.jpg', bytes: text, method: 14 },
        { name: 'huge.jpg', bytes: text, isDeflated: true, statedBytes: 2 ** 30 + 1 },
        { name: 'good.jpg', bytes: text },
      ]),
    );
    const items = await itemsOf(file);
    expect(items.map(({ path, error }) => [path, error?.code, error?.details.reason])).toEqual([
      ['secret.jpg', 'IMAGE_UNREADABLE', 'it is encrypted'],
      ['lzma.jpg', 'IMAGE_UNREADABLE', 'it is compressed by method 14; only deflate is supported'],
      ['huge.jpg', 'IMAGE_UNREADABLE', `it has ${2 ** 30 + 1} bytes, more than ${2 ** 30}`],
      ['good.jpg', undefined, undefined],
    ]);
  });

  it.each([
    [
      'is a bomb',
      { bytes: Buffer.alloc(2 ** 26), isDeflated: true, statedBytes: 1000 },
      /more than the 1000 bytes/,
    ],
    [
      'is too short',
      { bytes: text, isDeflated: true, statedBytes: 1000 },
      /has 73 bytes instead of the 1000/,
    ],
    ['has another checksum', { bytes: text, statedCrc: 7 }, /checksum/],
    ['is no deflated data', { bytes: Buffer.alloc(50, 0xff), method: 8 }, /invalid/],
  ])('refuses an image that %s, when its turn comes', async (_what, entry, reason) => {
    const [item] = await itemsOf(write(makeZip([{ name: 'a.jpg', ...entry }])));
    expect(item!.error).toBeUndefined();
    await expect(bytesOf(item!)).rejects.toMatchObject({
      code: 'IMAGE_UNREADABLE',
      details: { source: 'a.jpg', reason },
    });
  });

  it('that states fewer entries than it has is not taken for whole', async () => {
    const files = [1, 2, 3].map((i) => ({ name: `${i}.jpg`, bytes: text }));
    const { items, error } = await untilError(write(makeZip(files, 2)));
    expect(items).toHaveLength(2);
    expect(error).toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/more entries than the 2/),
    });
  });

  it('whose directory is damaged, so that an image would be left out by its name, is not taken for whole', async () => {
    const files = [1, 2, 3].map((i) => ({ name: `${i}.jpg`, bytes: text }));
    const zip = makeZip(files);
    const renamed = Buffer.from(zip);
    renamed.write('n', zip.lastIndexOf('3.jpg') + 3);
    const at = zip.lastIndexOf('3.jpg');
    const shifted = Buffer.concat([zip.subarray(0, at), Buffer.from('\0\t\0'), zip.subarray(at)]);
    for (const [damaged, reason] of [
      [renamed, /calls an entry "3\.jng"/],
      [shifted, /another name|directory/],
    ] as const) {
      const { error } = await untilError(write(damaged));
      expect(error).toMatchObject({ code: 'SOURCE_INVALID', message: expect.stringMatching(reason) });
    }
    const before = Buffer.concat([
      zip.subarray(0, zip.lastIndexOf('PK\x05\x06')),
      Buffer.from('junk'),
      zip.subarray(zip.lastIndexOf('PK\x05\x06')),
    ]);
    const { items, error } = await untilError(write(before));
    expect(items).toHaveLength(3);
    expect(error).toMatchObject({ code: 'SOURCE_INVALID', message: expect.stringContaining('directory') });
  });

  it('counts what it leaves out by name', async () => {
    const inner = makeZip([{ name: 'a.jpg', bytes: text }]);
    const names = ['a.jpg', 'notes.txt', 'b.json', 'inner.zip', 'shard.tar.gz', 'c.jxl', 'd/'];
    const source = openSource(write(makeZip(names.map((name) => ({ name, bytes: inner })))));
    const found: unknown[] = [];
    for await (const { path } of source) found.push(path);
    expect(found).toEqual(['a.jpg']);
    expect(source.unread).toEqual({ '.jxl': 1, archive: 2, 'other file': 2 });
  });

  it('that was cut off or broken anywhere ends with an error, and never hangs', async () => {
    const noise = Buffer.from(Array.from({ length: 3000 }, (_, i) => (i * i * 31) % 251));
    const whole = makeZip([
      { name: 'a.jpg', bytes: noise, isDeflated: true },
      { name: 'b.jpg', bytes: text },
    ]);
    for (let length = 0; length < whole.length; length += 512) {
      const { items, error } = await untilError(write(whole.subarray(0, length), 'cut.zip'));
      expect(items).toEqual([]);
      expect(error, `cut to ${length}`).toMatchObject({ code: 'SOURCE_INVALID' });
    }
    for (let at = 0; at < whole.length; at += 5) {
      const broken = Buffer.from(whole);
      broken[at]! ^= 0xff;
      const { items, error } = await untilError(write(broken, 'broken.zip'));
      if (error !== undefined) expect(error, `broken at ${at}`).toMatchObject({ code: 'SOURCE_INVALID' });
      for (const item of items.filter((one) => !one.error)) {
        const failure = await bytesOf(item).then(
          () => undefined,
          (reason: unknown) => reason,
        );
        if (failure !== undefined) expect(failure).toMatchObject({ code: 'IMAGE_UNREADABLE' });
      }
    }
  });
});
