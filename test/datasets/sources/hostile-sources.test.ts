/** Hostile lists and archives: each ends with items and typed errors, within bounds of time and memory. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { createFeatureExtractor, createTransform, embedImages } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../src/base/random.js';
import { makeTar, makeZip, padBlocks, TAR_END, tarBlock } from '../../support/archives.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { rounds } from '../../support/rounds.js';
import { bytesOf, untilError } from '../../support/sources.js';

const scratch = scratchFolder();
const photo = projectPath('examples/photos/sea/sea-0.jpg');
const bytes = readFileSync(photo);
let count = 0;

function write(name: string, content: string | Uint8Array): string {
  const folder = join(scratch, String(count++));
  mkdirSync(folder);
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

describe('a hostile list', () => {
  it('names what is no image: each entry is an error of that entry, and nothing hangs', async () => {
    const folder = join(scratch, 'entries');
    mkdirSync(join(folder, 'folder.jpg'), { recursive: true });
    copyFileSync(photo, join(folder, 'good.jpg'));
    symlinkSync('loop.jpg', join(folder, 'loop.jpg'));
    symlinkSync('/proc/self/environ', join(folder, 'secret.jpg'));
    if (process.platform !== 'win32') execFileSync('mkfifo', [join(folder, 'pipe.jpg')]);
    const entries = [
      'good.jpg',
      '../entries/good.jpg',
      'folder.jpg',
      'loop.jpg',
      'pipe.jpg',
      '/dev/zero',
      '/dev/tty',
      '/proc/self/mem',
      'secret.jpg',
      '../../../../../etc/passwd',
      'list.txt',
      'a\0b.jpg',
      'x'.repeat(300),
      'y/'.repeat(3000),
      'good.jpg/inside.jpg',
      'ftp://host/a.jpg',
      'data:image/png;base64,AAAA',
      '-rf',
      '%2e%2e/good.jpg',
      '{a,b}.jpg',
    ];
    writeFileSync(join(folder, 'list.txt'), entries.join('\n'));
    await using extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'v' });
    const transform = createTransform({ resize: 64, crop: 64 });
    const results: [string | null, string | undefined][] = [];
    for await (const { path, error } of embedImages(extractor, join(folder, 'list.txt'), { transform }))
      results.push([path, error?.code]);
    expect(results.map(([path]) => path)).toEqual(entries);
    expect(results.slice(0, 2).map(([, code]) => code)).toEqual([undefined, undefined]);
    for (const [path, code] of results.slice(2))
      expect(['IMAGE_NOT_FOUND', 'IMAGE_UNREADABLE', 'IMAGE_DENIED', 'IMAGE_EMPTY'], path!).toContain(code);
  });

  it.each([
    ['a line without an end', '.txt', 'x'.repeat(2 ** 22)],
    ['a field without an end', '.csv', `path\n"${'x,\n'.repeat(2 ** 20)}`],
    ['a column without an end', '.tsv', `path\t${'x'.repeat(2 ** 22)}`],
    ['a record without an end', '.jsonl', `{"path":"${'x'.repeat(2 ** 22)}`],
    ['a record of brackets', '.jsonl', '['.repeat(2 ** 19)],
  ])('is refused for %s', async (_what, extension, content) => {
    const { items, error } = await untilError(write(`list${extension}`, content));
    expect([items, error]).toEqual([[], expect.objectContaining({ code: 'SOURCE_INVALID' })]);
  });

  const lines = rounds(200_000, 1_000_000);
  it(`may have ${lines} entries: they are read one by one`, async () => {
    const path = write('long.txt', 'a.jpg\n'.repeat(lines));
    let seen = 0;
    const { openSource } = await import('../../../src/datasets/sources/open-source.js');
    for await (const item of openSource(path)) if (item.path === 'a.jpg') seen++;
    expect(seen).toBe(lines);
  });
});

describe('a hostile archive', () => {
  it('may have names that lead anywhere: they are only names', async () => {
    const names = [
      '../../etc/passwd.jpg',
      '/etc/passwd.jpg',
      'C:/a.jpg',
      'a/../../b.jpg',
      '.jpg',
      '\u202egpj.exe.jpg',
    ];
    const files = names.map((name) => ({ name, bytes }));
    for (const path of [write('a.tar', await makeTar(files)), write('a.zip', makeZip(files))]) {
      const { items, error } = await untilError(path);
      expect([items.map((item) => item.path), error]).toEqual([names, undefined]);
    }
  });

  it('is left at the end of a compressed file that is mostly zeros, in bounded memory', async () => {
    const zeros = Buffer.alloc(2 ** 28);
    const tar = Buffer.concat([
      tarBlock('zeros.bin', zeros.length),
      zeros,
      tarBlock('a.jpg', bytes.length),
      padBlocks(bytes),
      TAR_END,
    ]);
    const path = write('bomb.tgz', gzipSync(tar));
    expect(readFileSync(path).length).toBeLessThan(2 ** 20);
    const before = process.memoryUsage().rss;
    const { items, error } = await untilError(path);
    expect([items.map((item) => item.path), error]).toEqual([['a.jpg'], undefined]);
    expect(process.memoryUsage().rss - before).toBeLessThan(2 ** 27);
  });

  const empty = rounds(20_000, 100_000);
  it(`may have ${empty} empty entries`, async () => {
    const tar = Buffer.concat([Buffer.alloc(empty * 512, tarBlock('a.jpg', 0)), TAR_END]);
    const { items, error } = await untilError(write('many.tar', tar));
    expect([items.length, error]).toEqual([empty, undefined]);
  });
});

const SAMPLES: Readonly<Record<string, () => Uint8Array | Promise<Uint8Array>>> = {
  '.txt': () => Buffer.from('a.jpg\r\nb/c.jpg\n\nhttp://host/é.jpg\n'),
  '.csv': () => Buffer.from('\ufeffid,path\n1,"a,b.jpg"\n2,"c""d.jpg"\n3,é.jpg\n'),
  '.tsv': () => Buffer.from('path\tid\na.jpg\t1\nb".jpg\t2\n'),
  '.jsonl': () => Buffer.from('{"path":"a.jpg","id":1}\n{"id":[{}],"path":"b.jpg"}\n'),
  '.parquet': () =>
    new Uint8Array(
      parquetWriteBuffer({
        columnData: [
          { name: 'path', data: Array.from({ length: 50 }, (_, i) => `${i % 7}.jpg`), type: 'STRING' },
          { name: 'id', data: Array.from({ length: 50 }, (_, i) => i), type: 'INT32' },
        ],
      }),
    ),
  '.tar': () =>
    makeTar(['a.jpg', 'é/b.jpg', 'c.txt'].map((name) => ({ name, bytes: bytes.subarray(0, 700) }))),
  '.tgz': async () =>
    gzipSync(await makeTar(['a.jpg', 'b.png'].map((name) => ({ name, bytes: bytes.subarray(0, 700) })))),
  '.zip': () =>
    makeZip(
      ['a.jpg', 'b.png'].map((name, i) => ({ name, bytes: bytes.subarray(0, 700), isDeflated: i === 1 })),
    ),
};

/** Changes a file in one to four places. */
function mutate(sample: Uint8Array, next: () => number): Uint8Array {
  let mutant = Uint8Array.from(sample);
  const place = (): number => Math.floor(next() * mutant.length);
  const changes = [
    () => void (mutant[place()]! ^= 1 << Math.floor(next() * 8)),
    () => void (mutant[place()] = [0, 0xff, 0x7f, 0x80, 0x22, 0x0a][Math.floor(next() * 6)]!),
    () => void (mutant = mutant.subarray(0, place())),
    () => {
      const at = place();
      mutant = Buffer.concat([mutant.subarray(0, at), mutant.subarray(place())]);
    },
    () => {
      const [from, to] = [place(), place()].toSorted((a, b) => a - b) as [number, number];
      mutant.fill(next() < 0.5 ? 0 : 0xff, from, Math.min(to, from + 16));
    },
    () => {
      const at = place();
      const number = Buffer.alloc(4);
      number.writeUInt32LE(Math.floor(next() * 2 ** 32));
      mutant.set(number.subarray(0, mutant.length - at), at);
    },
  ];
  for (let i = Math.floor(next() * 4); i >= 0; i--)
    if (mutant.length > 0) changes[Math.floor(next() * changes.length)]!();
  return mutant;
}

const MUTANTS = rounds(150, 600);
const SEED = 20260729;

describe.each(Object.entries(SAMPLES))('%s', (extension, sample) => {
  it(`that is damaged ends with typed errors (${MUTANTS} mutants)`, { timeout: 600_000 }, async () => {
    const whole = await sample();
    const next = createRandom(SEED);
    const path = write(`mutant${extension}`, '');
    const plain = extension === '.tgz' ? gunzipSync(whole) : undefined;
    for (let i = 0; i < MUTANTS; i++) {
      // Half of the compressed ones are damaged inside.
      const mutant = plain && i % 2 === 0 ? gzipSync(mutate(plain, next)) : mutate(whole, next);
      writeFileSync(path, mutant);
      const started = performance.now();
      const { items, error } = await untilError(path, { allowHttp: true });
      if (error !== undefined) expect(error, `mutant ${i}`).toMatchObject({ code: 'SOURCE_INVALID' });
      expect(items.length).toBeLessThan(1000);
      for (const item of items) {
        if (item.error) expect(item.error.code).toMatch(/^IMAGE_/);
        else if (typeof item.image === 'function' && !item.path?.startsWith('http'))
          await bytesOf(item).catch((reason: unknown) =>
            expect(reason, `mutant ${i}`).toMatchObject({ code: expect.stringMatching(/^IMAGE_/) }),
          );
      }
      expect(performance.now() - started, `mutant ${i}`).toBeLessThan(30_000);
    }
  });
});
