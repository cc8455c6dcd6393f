import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openSource } from '../../../../src/datasets/sources/open-source.js';
import {
  makeTar,
  padBlocks,
  sealTarBlock,
  TAR_END,
  tarBlock,
  type PackedFile,
} from '../../../support/archives.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { bytesOf, itemsOf, pathsOf, untilError } from '../../../support/sources.js';

const folder = scratchFolder();
let count = 0;

function write(content: Uint8Array, name = `${count++}.tar`): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

const FILES: PackedFile[] = [
  { name: 'b.jpg', bytes: Buffer.from('first') },
  { name: 'notes.txt', bytes: Buffer.alloc(3000, 'n') },
  { name: `${'deep/'.repeat(60)}ü.png`, bytes: Buffer.alloc(1024, 'p') },
  { name: 'empty.jpg', bytes: Buffer.alloc(0) },
  { name: '../../etc/a.JPG', bytes: Buffer.from('only a name') },
  { name: 'b.jpg', bytes: Buffer.from('again') },
];
const IMAGES = FILES.filter(({ name }) => name !== 'notes.txt');

/** Paths, bytes, sizes and times of all items. */
async function readAll(source: string): Promise<unknown[]> {
  return Promise.all(
    (await itemsOf(source)).map(async (item) => [
      item.path,
      Buffer.from(await bytesOf(item)).toString('latin1'),
      item.stamp,
    ]),
  );
}

const expected = (files: readonly PackedFile[], prefix = ''): unknown[] =>
  files.map(({ name, bytes }) => [
    prefix + name,
    Buffer.from(bytes).toString('latin1'),
    { sizeBytes: bytes.length, modifiedMs: 1_700_000_000_000, sha256: null },
  ]);
const whole = await makeTar(FILES, new Date(1_700_000_000_000));

describe('a tar', () => {
  it.each([
    ['plain', () => write(whole)],
    ['gzipped', () => write(gzipSync(whole), 'a.tar.gz')],
    ['gzipped as .tgz', () => write(gzipSync(whole), 'a.tgz')],
    ['gzipped, called .tar', () => write(gzipSync(whole))],
  ])('%s gives its images in its order', async (_what, make) => {
    const file = make();
    expect(await readAll(file)).toEqual(expected(IMAGES));
    expect(openSource(file).description).toEqual({ kind: 'tar', location: file });
  });

  it('gives an image that is asked for late, or twice', async () => {
    const items = await itemsOf(write(whole));
    expect(String(await bytesOf(items[4]!))).toBe('again');
    expect(String(await bytesOf(items[4]!))).toBe('again');
    expect(String(await bytesOf(items[0]!))).toBe('first');
  });

  it('gives hard links the photos that they name; a compressed one counts them', async () => {
    const far = `${'far/'.repeat(40)}a`;
    const file = (name: string, text: string): Buffer[] => [
      tarBlock(name, text.length),
      padBlocks(Buffer.from(text)),
    ];
    const hard = (name: string, link: string): Buffer => tarBlock(name, 0, { type: '1', link });
    const tar = Buffer.concat([
      ...Array.from({ length: 99 }, (_, i) => file(`blobs/${i}`, `${i}`)).flat(),
      hard('early.jpg', 'a.jpg'),
      ...file('a.jpg', 'first'),
      hard('b.jpg', 'a.jpg'),
      hard('c.png', 'b.jpg'),
      hard('d.jpg', 'blobs/77'),
      hard('notes.txt', 'a.jpg'),
      ...file('a.jpg', 'again'),
      hard('e.jpg', 'a.jpg'),
      tarBlock('././@LongLink', far.length + 1, { type: 'L', magic: 'ustar  \0' }),
      padBlocks(Buffer.from(`${far}\0`)),
      ...file('cut', 'deep'),
      tarBlock('././@LongLink', far.length + 1, { type: 'K', magic: 'ustar  \0' }),
      padBlocks(Buffer.from(`${far}\0`)),
      hard('f.jpg', 'cut'),
      tarBlock('g.jpg', 0, { type: '2', link: 'a.jpg' }),
      tarBlock('notes.md', 0, { type: '2', link: 'a.jpg' }),
      TAR_END,
    ]);
    const source = write(tar);
    const opened = openSource(source);
    const found: unknown[] = [];
    for await (const item of opened)
      found.push([item.path, item.error?.message ?? String(await bytesOf(item)), item.stamp?.sizeBytes]);
    expect(found).toEqual([
      [
        'early.jpg',
        expect.stringContaining('a hard link to "a.jpg", which the tar does not hold before'),
        undefined,
      ],
      ['a.jpg', 'first', 5],
      ['b.jpg', 'first', 5],
      ['c.png', 'first', 5],
      ['d.jpg', '77', 2],
      ['a.jpg', 'again', 5],
      ['e.jpg', 'again', 5],
      ['f.jpg', 'deep', 4],
    ]);
    expect(opened.unread).toEqual({ 'symbolic link': 1, 'other file': 101 });
    const packed = openSource(write(gzipSync(tar), 'links.tgz'));
    const paths: unknown[] = [];
    for await (const { path } of packed) paths.push(path);
    expect(paths).toEqual(['a.jpg', 'a.jpg']);
    expect(packed.unread).toEqual({ 'hard link': 6, 'symbolic link': 1, 'other file': 100 });
  });

  it('leaves symbolic links, folders and devices out', async () => {
    const blocks = Array.from('23456', (type) => tarBlock(`x${type}.jpg`, 700, { type }));
    const tar = Buffer.concat([...blocks, tarBlock('a.jpg', 2), padBlocks(Buffer.from('ok')), TAR_END]);
    expect(await pathsOf(write(tar))).toEqual(['a.jpg']);
  });

  it('knows GNU’s long names, prefixes, old headers and large numbers', async () => {
    const long = `${'x'.repeat(300)}.jpg`;
    const binary = tarBlock('binary.jpg', 0);
    binary.fill(0, 124, 136);
    binary.set([0x80], 124);
    binary.set([2], 135);
    const tar = Buffer.concat([
      tarBlock('././@LongLink', long.length + 1, { type: 'L', magic: 'ustar  \0' }),
      padBlocks(Buffer.from(`${long}\0`)),
      tarBlock('short.jpg', 1, { magic: 'ustar  \0', prefix: 'no prefix' }),
      padBlocks(Buffer.from('1')),
      tarBlock('c.jpg', 1, { prefix: 'a/b' }),
      padBlocks(Buffer.from('2')),
      tarBlock('v7.jpg', 1, { type: '\0', magic: '' }),
      padBlocks(Buffer.from('3')),
      sealTarBlock(binary),
      padBlocks(Buffer.from('45')),
      TAR_END,
    ]);
    const read = (await readAll(write(tar))) as [string, string][];
    expect(read.map(([path, bytes]) => [path, bytes])).toEqual([
      [long, '1'],
      ['a/b/c.jpg', '2'],
      ['v7.jpg', '3'],
      ['binary.jpg', '45'],
    ]);
  });

  it('lists what it cannot read with its error', async () => {
    const pax = 'path=a\0b.jpg\n';
    const record = `${pax.length + 3} ${pax}`;
    const huge = 1024 ** 3 + 512;
    const tar = Buffer.concat([
      tarBlock('PaxHeader', record.length, { type: 'x' }),
      padBlocks(Buffer.from(record)),
      tarBlock('ignored.jpg', 0),
      tarBlock(Buffer.from([0xe9, 0x2e, 0x6a, 0x70, 0x67]), 0),
      tarBlock('huge.jpg', huge),
    ]);
    const { items } = await untilError(write(gzipSync(tar), 'bad.tgz'));
    expect(items.map(({ path, error }) => [path, error?.code, error?.details.reason])).toEqual([
      ['a\u2400b.jpg', 'IMAGE_UNREADABLE', 'its name holds a NUL character'],
      ['\\xe9.jpg', 'IMAGE_UNREADABLE', 'its name is not UTF-8'],
      ['huge.jpg', 'IMAGE_UNREADABLE', `it has ${huge} bytes, more than ${1024 ** 3}`],
    ]);
  });

  it.each([
    ['no header', Buffer.alloc(1024, 'x'), /no tar header at byte 0/],
    [
      'a wrong checksum',
      Buffer.concat([whole.subarray(0, 1024), Buffer.alloc(512, 7)]),
      /no tar header at byte 1024/,
    ],
    ['nothing', Buffer.alloc(0), /ends behind byte 0/],
    [
      'more after the end',
      Buffer.concat([Buffer.alloc(512), whole]),
      /has more data after its end mark at byte 0/,
    ],
    ['a name of 2 MiB', tarBlock('x', 2 ** 21, { type: 'L' }), /has 2097152 bytes/],
    [
      'a damaged pax header',
      Buffer.concat([tarBlock('x', 9, { type: 'x' }), padBlocks(Buffer.from('99 a=b\nxx'))]),
      /pax header at byte 0/,
    ],
    [
      'a pax size that is none',
      Buffer.concat([
        tarBlock('x', 11, { type: 'x' }),
        padBlocks(Buffer.from('11 size=-1\n')),
        tarBlock('a.jpg', 0),
      ]),
      /wrong size/,
    ],
    ['a sparse file', tarBlock('a.jpg', 0, { type: 'S' }), /stored sparsely/],
  ])('says where it has %s', async (_what, bytes, reason) => {
    const source = write(bytes);
    const { error } = await untilError(source);
    expect(error).toMatchObject({ code: 'SOURCE_INVALID', details: { source, reason } });
  });

  it('that was cut off gives the items before, then says where it ends', async () => {
    // Up to and with the first empty block it is whole.
    const end = whole.length - 512;
    const items = expected(IMAGES);
    for (let length = 0; length < end; length += 512) {
      const { items: read, error } = await untilError(write(whole.subarray(0, length), 'cut.tar'));
      expect(read.map(({ path }) => path)).toEqual(
        items.slice(0, read.length).map((item) => (item as [string])[0]),
      );
      expect(error, `cut to ${length}`).toMatchObject({
        code: 'SOURCE_INVALID',
        message: expect.stringMatching(/cut off.* byte \d+/),
      });
    }
    expect((await itemsOf(write(whole.subarray(0, end), 'cut.tar'))).length).toBe(IMAGES.length);
  });

  it('that was compressed and cut off or broken says so', async () => {
    const noise = Buffer.from(Array.from({ length: 5000 }, (_, i) => (i * i * 31) % 251));
    const packed = gzipSync(await makeTar([{ name: 'a.jpg', bytes: noise }, ...FILES]));
    for (let length = 2; length < packed.length; length += 512) {
      const { error } = await untilError(write(packed.subarray(0, length), 'cut.tgz'));
      expect(error, `cut to ${length}`).toMatchObject({
        code: 'SOURCE_INVALID',
        message: expect.stringMatching(/cut off/),
      });
    }
    for (let at = 10; at < packed.length; at += 97) {
      const broken = Buffer.from(packed);
      broken[at]! ^= 0xff;
      const { error } = await untilError(write(broken, 'broken.tgz'));
      if (error !== undefined) expect(error, `broken at ${at}`).toMatchObject({ code: 'SOURCE_INVALID' });
    }
  });

  it('shows an image that is gone when its turn comes as an error of that image', async () => {
    const file = write(whole);
    const [first, second] = await itemsOf(file);
    writeFileSync(file, whole.subarray(0, 1024));
    expect(String(await bytesOf(first!))).toBe('first');
    await expect(bytesOf(second!)).rejects.toMatchObject({ code: 'IMAGE_NOT_FOUND' });
  });

  it('gives back what was packed, whatever names and sizes', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            name: fc
              .string({ unit: 'grapheme', minLength: 1, maxLength: 200 })
              .map((name) => `${name.replace(/[\0\n]/g, '_')}.jpg`),
            bytes: fc.uint8Array({ maxLength: 2000 }),
          }),
          { maxLength: 8 },
        ),
        fc.boolean(),
        async (files, isGzipped) => {
          const tar = await makeTar(files, new Date(1_700_000_000_000));
          const file = write(isGzipped ? gzipSync(tar) : tar, 'random.tar');
          expect(await readAll(file)).toEqual(expected(files));
        },
      ),
      { numRuns: 60 },
    ));
});

describe('shards', () => {
  const shard = (name: string): Promise<Buffer> =>
    makeTar([{ name: '0.jpg', bytes: Buffer.from(name) }], new Date(1_700_000_000_000));

  it('are named before their entries, by a list or a pattern, even if there is only one', async () => {
    for (const name of ['s-009.tar', 's-010.tar']) write(await shard(name), name);
    const listed = join(folder, 's-{009..010}.tar');
    expect(await readAll(listed)).toEqual([
      ...expected([{ name: '0.jpg', bytes: Buffer.from('s-009.tar') }], 's-009.tar/'),
      ...expected([{ name: '0.jpg', bytes: Buffer.from('s-010.tar') }], 's-010.tar/'),
    ]);
    expect(await pathsOf(join(folder, 's-*.tar'))).toEqual(['s-009.tar/0.jpg', 's-010.tar/0.jpg']);
    expect(await pathsOf(join(folder, 's-*9.tar'))).toEqual(['s-009.tar/0.jpg']);
    expect(openSource(listed).description).toEqual({ kind: 'tar', location: listed });
  });

  it('are refused before anything is read if one is missing, or another kind of file', async () => {
    write(await shard('t'), 't-0.tar');
    const { items, error } = await untilError(join(folder, 't-{0..1}.tar'));
    expect(items).toEqual([]);
    expect(error).toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/t-1\.tar: there is no .*ENOENT/),
    });
    expect(() => openSource(join(folder, '{a.tar,b.jpg}'))).toThrow(/one kind/);
  });
});
