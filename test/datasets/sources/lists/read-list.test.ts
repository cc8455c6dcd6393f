import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { inspect } from 'node:util';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { describe, expect, it } from 'vitest';
import { openSource } from '../../../../src/datasets/sources/open-source.js';
import { fixturePath, scratchFolder } from '../../../support/fixtures.js';
import { inPieces, itemsOf, pathsOf, untilError } from '../../../support/sources.js';

const folder = scratchFolder();
let count = 0;

function write(extension: string, content: string | Uint8Array): string {
  const file = join(folder, `list-${count++}${extension}`);
  writeFileSync(file, content);
  return file;
}

function writeParquet(columns: Record<string, (string | null)[]>, rowGroupSize = 2): string {
  const columnData = Object.entries(columns).map(([name, data]) => ({ name, data, type: 'STRING' as const }));
  return write('.parquet', new Uint8Array(parquetWriteBuffer({ columnData, rowGroupSize })));
}

const LISTED = ['b.jpg', 'sub/a.png', '/abs/c.jpg', 'ü b.jpg'];

const textsOf = async (file: string): Promise<unknown[]> =>
  (await itemsOf(file)).map(({ columns }) => columns && Object.fromEntries(columns));

it.each([
  ['.jsonl', '{"path":"https://h/a?X-Amz-Signature=SECRET"SECRET}'],
  ['.csv', 'path,b\nhttps://h/a?X-Amz-Signature=SECRET"SECRET",1\n'],
  ['.csv', 'path,b\nhttps://h/a?X-Amz-Signature=SECRET\n'],
])('quotes no signature of a damaged line: %s', async (extension, text) => {
  const { error } = await untilError(write(extension, text), { allowHttp: true });
  expect(error).toMatchObject({ code: 'SOURCE_INVALID' });
  expect(inspect(error, { depth: 9 })).not.toContain('SECRET');
});

describe('names from a column', () => {
  const name = { column: 'id' };

  it('are those of rows, in every kind of list', async () => {
    const parquet = (columnData: Parameters<typeof parquetWriteBuffer>[0]['columnData']) =>
      write('.parquet', new Uint8Array(parquetWriteBuffer({ columnData })));
    const sources = [
      write('.csv', 'url,id\na.jpg?sig=1,7\nb.jpg,x\n'),
      write('.jsonl', '{"url":"a.jpg","id":7}\n{"url":"b.jpg","id":"x"}'),
      parquet([
        { name: 'url', data: ['a.jpg', 'b.jpg'], type: 'STRING' },
        { name: 'id', data: ['7', 'x'], type: 'STRING' },
      ]),
      parquet([
        { name: 'url', data: [Uint8Array.of(255, 1), Uint8Array.of(255, 2)], type: 'BYTE_ARRAY' },
        { name: 'id', data: ['7', 'x'], type: 'STRING' },
      ]),
      {
        paths: inPieces(Buffer.from('{"url":"a.jpg","id":7}\n{"url":"b.jpg","id":"x"}'), 9),
        format: 'jsonl',
      },
    ] as const;
    for (const source of sources) {
      const items = await itemsOf(source, { name, column: 'url' });
      expect(items.map(({ path, heldIn }) => [path, heldIn])).toEqual([
        ['7', 0],
        ['x', 1],
      ]);
      // The column stays one of the dataset.
      expect(items.map(({ columns }) => columns!.has('id'))).toEqual([true, true]);
    }
  });

  it('are the usual ones where a row has none, and without credentials', async () => {
    const list = write(
      '.jsonl',
      '{"path":"a.jpg","id":null}\n{"path":"b.jpg","id":""}\n{"path":"c.jpg","id":"https://u:p@h/d?sig=1"}',
    );
    expect(await pathsOf(list, { name })).toEqual(['a.jpg', 'b.jpg', 'https://h/d']);
    expect(await pathsOf(list, { name: { column: 'path' } })).toEqual(['a.jpg', 'b.jpg', 'c.jpg']);
    expect((await itemsOf(list)).at(-1)!.columns!.get('id')).toBe('"https://h/d"');
  });

  it('are refused where there is no such column, or there are no columns', async () => {
    const { error } = await untilError(write('.csv', 'path,label\na.jpg,1\n'), { name });
    expect(error).toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/no column "id".*name: \{ column \}/),
    });
    for (const source of [folder, ['a.jpg']])
      expect((await untilError(source, { name })).error).toMatchObject({ code: 'OPTION_INVALID' });
  });
});

describe('what a list says beside the path', () => {
  it('comes as texts of JSON, as written', async () => {
    const csv = write('.csv', 'path,label,,note,row\na.jpg,007,0,"x ""y""",9\nb.jpg,,1,é,9\n');
    expect(await textsOf(csv)).toEqual([
      { label: '"007"', note: '"x \\"y\\""', source_row: '"9"' },
      { label: '""', note: '"é"', source_row: '"9"' },
    ]);
    const json = write(
      '.jsonl',
      '{"n":1.0,"path":"a.jpg","tags":["x", 2]}\n{"path":"b.jpg","big":12345678901234567890}',
    );
    expect(await textsOf(json)).toEqual([{ n: '1.0', tags: '["x", 2]' }, { big: '12345678901234567890' }]);
    expect(await textsOf(write('.txt', 'a.jpg'))).toEqual([undefined]);
  });

  it('warns once of images beside paths that name no file', async () => {
    const warnings: Error[] = [];
    const hear = (warning: Error): number => warnings.push(warning);
    process.on('warning', hear);
    const columnData = [
      { name: 'path', data: ['none.jpg', 'b.jpg'], type: 'STRING' as const },
      {
        name: 'image',
        data: [new Uint8Array([255, 216]), new Uint8Array([255])],
        type: 'BYTE_ARRAY' as const,
      },
    ];
    const file = write('.parquet', new Uint8Array(parquetWriteBuffer({ columnData })));
    for (let i = 0; i < 2; i++) expect(await pathsOf(file)).toEqual(['none.jpg', 'b.jpg']);
    await new Promise(setImmediate);
    process.off('warning', hear);
    expect(warnings).toMatchObject([{ code: 'TAPIR_IMAGES_IN_COLUMN' }]);
    expect(warnings[0]!.message).toContain(
      '"none.jpg" is no file. To embed the images, set option "column" to image',
    );
  });

  it('keeps the types of Parquet, and leaves out bytes', async () => {
    const columnData = [
      { name: 'path', data: ['a.jpg', 'b.jpg'], type: 'STRING' as const },
      { name: 'n', data: [2n ** 60n, null], type: 'INT64' as const },
      { name: 'x', data: [3, 0.5], type: 'DOUBLE' as const },
      { name: 'ok', data: [true, false], type: 'BOOLEAN' as const },
      { name: 'day', data: [new Date(0), null], type: 'TIMESTAMP' as const },
      { name: 'image', data: [new Uint8Array([1]), new Uint8Array([255])], type: 'BYTE_ARRAY' as const },
      { name: 'sha256', data: ['x', null], type: 'STRING' as const },
    ];
    expect(await textsOf(write('.parquet', new Uint8Array(parquetWriteBuffer({ columnData }))))).toEqual([
      {
        n: '1152921504606846976',
        x: '3.0',
        ok: 'true',
        day: '"1970-01-01T00:00:00.000Z"',
        source_sha256: '"x"',
      },
      { n: 'null', x: '0.5', ok: 'false', day: 'null', source_sha256: 'null' },
    ]);
  });

  it.each([
    ['.csv', 'path,a,a\nx.jpg,1,2\n'],
    ['.jsonl', '{"path":"x.jpg","row":1,"source_row":2}'],
  ])('must have names that differ: %s', async (extension, content) => {
    const { error } = await untilError(write(extension, content));
    expect(error).toMatchObject({ code: 'SOURCE_INVALID' });
    expect((error as Error).message).toMatch(/it has two columns "(?:a|source_row)"; rename one of them/);
  });
});

describe('a list file', () => {
  const csv = `id,path,label\n${LISTED.map((path, i) => `${i},"${path}",x`).join('\n')}\n`;
  it.each([
    ['a path per line', () => write('.txt', `\n${LISTED.join('\r\n')}\n   \n`), {}],
    ['NUL-separated paths', () => write('.txt', `${LISTED.join('\0')}\0`), { nulSeparated: true }],
    ['CSV', () => write('.csv', csv), {}],
    [
      'CSV with a byte order mark and another column',
      () => write('.CSV', `\uFEFF${csv}`.replace('id,path', '"id",file')),
      { column: 'file' },
    ],
    ['TSV', () => write('.tsv', `path\tnote\n${LISTED.map((path) => `${path}\t5" wide`).join('\n')}`), {}],
    [
      'JSON lines',
      () => write('.jsonl', LISTED.map((path) => JSON.stringify({ path, n: 1 })).join('\n')),
      {},
    ],
    [
      'another field',
      () => write('.ndjson', LISTED.map((image) => JSON.stringify({ image })).join('\n')),
      { column: 'image' },
    ],
    ['Parquet', () => writeParquet({ label: ['1', '2', '3', '4'], path: LISTED }), {}],
    ['another column of Parquet', () => writeParquet({ image: LISTED }, 3), { column: 'image' }],
  ])('of %s', async (_what, make, options) => {
    const file = make();
    const items = await itemsOf(file, options);
    expect(items.map(({ path }) => path)).toEqual(LISTED);
    expect(items.map(({ image }) => image)).toEqual([
      join(folder, 'b.jpg'),
      join(folder, 'sub/a.png'),
      '/abs/c.jpg',
      join(folder, 'ü b.jpg'),
    ]);
    expect(openSource(file).description).toEqual({ kind: 'list', location: file });
  });

  it.each([
    ['text that is not UTF-8', '.txt', Buffer.from([0x61, 0x0a, 0xe9, 0x0a]), 2, /not UTF-8/],
    ['a line without end', '.txt', `a\n${'x'.repeat(2 ** 20 + 1)}`, 2, /longer than 1048576 bytes/],
    ['no JSON', '.jsonl', '{"path":"a.jpg"}\n{"path":\n', 2, /not JSON/],
    ['JSON that is no record', '.jsonl', '7\n', 1, /field "path"/],
    ['an inherited field', '.jsonl', '{}\n', 1, /field "constructor"/, { column: 'constructor' }],
    ['a field that is no text', '.jsonl', '{"path":"a"}\n\n{"path":7}', 3, /field "path"/],
    [
      'CSV of other columns',
      '.csv',
      'file,label\na.jpg,1\n',
      undefined,
      /no column "path"; the columns are file, label/,
    ],
    ['a row too short', '.csv', 'path,label\na.jpg,1\nb.jpg\n', 3, /Record Length/],
    ['a row too long', '.csv', 'path\na.jpg\nb,c\n', 3, /Record Length/],
    ['an open quotation', '.csv', 'path\n"a.jpg\nb.jpg\n', 3, /Quote Not Closed/],
    [
      'an endless quotation',
      '.csv',
      `path\n"${'a\n'.repeat(2 ** 20)}`,
      undefined,
      /max_record_size|Max Record Size/,
    ],
    ['an empty cell', '.csv', 'path,label\na.jpg,1\n,2\n', 3, /"path" is empty/],
    ['CSV that is not UTF-8', '.csv', Buffer.from('path\na.jpg\n\xe9.jpg\n', 'latin1'), 3, /not UTF-8/],
    ['no Parquet', '.parquet', 'path\na.jpg\n', undefined, /parquet/],
    ['an empty Parquet file', '.parquet', '', undefined, /./],
  ])(
    'says where there is %s, after the entries before',
    async (_what, extension, content, line, reason, options?: { column: string }) => {
      const file = write(extension, content);
      const { items, error } = await untilError(file, options);
      expect(error).toMatchObject({ code: 'SOURCE_INVALID', details: { source: file, reason } });
      if (line !== undefined) {
        expect(error).toMatchObject({ details: { line } });
        expect(items.length).toBeLessThan(line);
      }
    },
  );

  it('reads the photos that a Parquet file holds as { bytes, path }', async () => {
    const file = fixturePath('tables/photos.parquet');
    const items = await itemsOf(file);
    expect(items.map(({ path, error }) => [path, error?.code])).toEqual([
      ['one.png', undefined],
      [null, undefined],
      ['beside.png', undefined],
      [null, 'IMAGE_EMPTY'],
      ['two.png', undefined],
    ]);
    for (const { image } of [items[0]!, items[1]!, items[4]!])
      expect(
        Buffer.from(image as Uint8Array)
          .subarray(1, 4)
          .toString(),
      ).toBe('PNG');
    expect(items[2]!.image).toBe(join(fixturePath('tables'), 'beside.png'));
    expect(await textsOf(file)).toEqual(['0', '1', '0', '1', '2'].map((label) => ({ label })));
    expect(await pathsOf(join(fixturePath('tables'), 'photo?.parquet'))).toEqual([
      'photos.parquet/one.png',
      null,
      'beside.png',
      null,
      'photos.parquet/two.png',
    ]);
  });

  it('reads the photos that a Parquet file holds as bytes, named by the column of paths', async () => {
    const jpeg = Buffer.from([0xff, 0xd8, 0xff, 0xe0]);
    const columnData = [
      { name: 'path', data: ['a.jpg', 'b.jpg', 'c.jpg'], type: 'STRING' as const },
      { name: 'photo', data: [null, jpeg, Buffer.from('<html>')], type: 'BYTE_ARRAY' as const },
      { name: 'label', data: ['x', 'y', 'z'], type: 'STRING' as const },
    ];
    const file = write('.parquet', new Uint8Array(parquetWriteBuffer({ columnData })));
    const read = await itemsOf(file, { column: 'photo' });
    // What is no photo is still no name: its bytes lie in a column of photos.
    expect(read.map(({ path, stamp, error }) => [path, stamp?.sizeBytes, error?.code])).toEqual([
      ['a.jpg', undefined, 'IMAGE_EMPTY'],
      ['b.jpg', 4, undefined],
      ['c.jpg', 6, undefined],
    ]);
    expect(read.map(({ columns }) => Object.fromEntries(columns!))).toEqual(
      ['x', 'y', 'z'].map((label) => ({ label: JSON.stringify(label) })),
    );
  });

  it('reads paths from a column of JSON texts', async () => {
    const columnData = [{ name: 'path', data: ['a.jpg', 'b.jpg'], type: 'JSON' as const }];
    const file = write('.parquet', new Uint8Array(parquetWriteBuffer({ columnData })));
    expect(await pathsOf(file)).toEqual(['a.jpg', 'b.jpg']);
  });

  it('says what a column of images may be where it is a list', async () => {
    const file = fixturePath('tables/snappy-groups.parquet');
    const { error } = await untilError(file, { column: 'embedding' });
    expect(error).toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/"embedding" is nested or repeated.*\{ bytes, path \}/),
    });
  });

  it('says which row of a Parquet file holds no path', async () => {
    const { items, error } = await untilError(writeParquet({ path: ['a', 'b', null, 'd'] }));
    expect(items).toHaveLength(2);
    expect(error).toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/row 3 has no text in the column "path"/),
    });
    await expect(itemsOf(writeParquet({ file: ['a'] }))).rejects.toThrow(
      /no column "path"; the columns are file/,
    );
  });

  it('of Parquet, cut off or broken anywhere, is refused and never hangs', async () => {
    const whole = readFileSync(writeParquet({ path: ['a.jpg', 'b.jpg', 'c.jpg'] }));
    for (let length = 0; length < whole.length; length += 7) {
      const { error } = await untilError(write('.parquet', whole.subarray(0, length)));
      expect(error, `cut to ${length}`).toMatchObject({ code: 'SOURCE_INVALID' });
    }
    for (let at = 0; at < whole.length; at += 3) {
      const broken = Buffer.from(whole);
      broken[at]! ^= 0xff;

      const { error } = await untilError(write('.parquet', broken));
      if (error !== undefined) expect(error, `broken at ${at}`).toMatchObject({ code: 'SOURCE_INVALID' });
    }
  });

  it('is one image if it is one, and refused if it is something else', async () => {
    const image = write('.jpg', 'x');
    expect(await itemsOf(image)).toEqual([{ path: image.slice(folder.length + 1), image }]);
    expect(() => openSource(write('.doc', 'x'))).toThrow(/its extension is not supported; give a folder/);
    expect(() => openSource(join(folder, 'none.jpg'))).toThrow(/no such file or folder; give a folder/);
    expect(() => openSource('/dev/null')).toThrow(/neither a folder, a regular file nor a pipe/);
    expect(() => openSource('a\0b')).toThrow(expect.objectContaining({ code: 'SOURCE_INVALID' }));
    expect(() => openSource('https://user:secret@example.org/a.jpg?key=1')).toThrow(
      /^"https:\/\/example.org\/a.jpg" cannot be embedded: it is a URL/,
    );
    mkdirSync(join(folder, 'x.tar'));
    expect(openSource(join(folder, 'x.tar')).description.kind).toBe('folder');
  });
});

describe('a stream of paths', () => {
  it('is relative to the working directory', async () => {
    const paths = (): AsyncIterable<Uint8Array> => inPieces(Buffer.from('a.jpg\n\nb c.jpg\r\n/d.jpg'), 4);
    expect(await itemsOf({ paths: paths() })).toEqual(
      ['a.jpg', 'b c.jpg', '/d.jpg'].map((path) => ({ path, image: path })),
    );
    expect(openSource({ paths: paths() }).description).toEqual({ kind: 'stream', location: null });
    const nul = inPieces(Buffer.from('a\nb.jpg\0c.jpg\0'), 4);
    expect(await pathsOf({ paths: nul }, { nulSeparated: true })).toEqual(['a\nb.jpg', 'c.jpg']);
  });

  it('is not taken for images', () => {
    expect(() => openSource(new PassThrough())).toThrow(/\{ paths: stream \}/);
    expect(() => openSource({ paths: 'a.jpg' } as never)).toThrow(
      /\{ paths \} with an asynchronous iterable of bytes/,
    );
  });
});

describe('an iterable', () => {
  it('gives paths, bytes and URLs, asynchronously too', async () => {
    const bytes = new Uint8Array(3);
    const given = ['a.jpg', bytes, new URL('file:///b%20c.jpg')];
    async function* later(): AsyncGenerator<string | Uint8Array | URL> {
      await Promise.resolve();
      yield* given;
    }
    const expected = [
      { path: 'a.jpg', image: 'a.jpg' },
      { path: null, image: bytes },
      { path: '/b c.jpg', image: '/b c.jpg' },
    ];
    expect(await itemsOf(given)).toEqual(expected);
    expect(await itemsOf(later())).toEqual(expected);
    expect(openSource(given).description).toEqual({ kind: 'iterable', location: null });
    await expect(itemsOf([new URL('ftp://example.org/a.jpg')])).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
    await expect(itemsOf([7] as never)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});
