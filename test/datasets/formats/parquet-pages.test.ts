/** Damaged and hostile pages of Parquet files: read rightly, or refused, and never for long. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { parquetMetadata } from 'hyparquet';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { describe, expect, it } from 'vitest';
import { checkPages, type ColumnFacts } from '../../../src/datasets/formats/parquet-pages.js';
import { readParquetRecords } from '../../../src/datasets/formats/parquet-reading.js';
import { fixturePath, scratchFolder } from '../../support/fixtures.js';
import { isRelease, someOf } from '../../support/rounds.js';

type Options = Parameters<typeof parquetWriteBuffer>[0];

const ROWS = 100;
const path = Array.from({ length: ROWS }, (_, i) => (i % 7 === 0 ? null : `${i % 9}.jpg`));
const own = Array.from({ length: ROWS }, (_, i) => `photo ${i} of many.jpg`);

function write(more: Partial<Options> = {}): ArrayBuffer {
  return parquetWriteBuffer({
    columnData: [
      { name: 'path', data: path, type: 'STRING' },
      { name: 'own', data: own, type: 'STRING', nullable: false },
      { name: 'row', data: own.map((_, i) => BigInt(i)), type: 'INT64' },
      { name: 'good', data: own.map((_, i) => i % 3 === 0), type: 'BOOLEAN' },
    ],
    ...more,
  });
}

const COLUMNS = ['path', 'own', 'row', 'good'] as const;
const FORMS: Readonly<Record<string, ArrayBuffer>> = {
  snappy: write(),
  plain: write({ codec: 'UNCOMPRESSED' }),
  gzip: write({ codec: 'GZIP', compressors: { GZIP: (bytes) => gzipSync(bytes) } }),
  groups: write({ rowGroupSize: 30 }),
};

const folder = mkdtempSync(join(scratchFolder(), 'pages-'));

async function read(bytes: ArrayBuffer | Uint8Array): Promise<unknown[][]> {
  const file = join(folder, 'x.parquet');
  writeFileSync(file, new Uint8Array(bytes as ArrayBuffer));
  const rows: unknown[][] = [];
  for await (const record of readParquetRecords(file, COLUMNS))
    rows.push(COLUMNS.map((name) => record[name]));
  return rows;
}

/** The pages of the first column of text, and what they must hold. */
function pagesOf(file: ArrayBuffer): { pages: ArrayBuffer; facts: ColumnFacts } {
  const chunk = parquetMetadata(file).row_groups[0]!.columns[0]!.meta_data!;
  const start = Number(chunk.dictionary_page_offset || chunk.data_page_offset);
  return {
    pages: file.slice(start, start + Number(chunk.total_compressed_size)),
    facts: { codec: chunk.codec, values: ROWS, definition: 1, repetition: 0, leastBytes: 4 },
  };
}

describe('checkPages', () => {
  it('accepts the pages of a column', async () => {
    for (const form of [FORMS['snappy']!, FORMS['plain']!, FORMS['gzip']!]) {
      const { pages, facts } = pagesOf(form);
      await checkPages(pages, facts);
    }
    await checkPages(new ArrayBuffer(0), { ...pagesOf(FORMS['plain']!).facts, values: 0 });
  });

  it('refuses more or fewer values than rows, and pages that were cut off', async () => {
    const { pages, facts } = pagesOf(FORMS['plain']!);
    await expect(checkPages(pages, { ...facts, values: ROWS - 1 })).rejects.toThrow('is damaged');
    await expect(checkPages(pages, { ...facts, values: ROWS + 1 })).rejects.toThrow('100 of its 101 values');
    for (let length = 0; length < pages.byteLength; length++)
      await expect(checkPages(pages.slice(0, length), facts)).rejects.toBeInstanceOf(Error);
  });

  it('says which compression is not read', async () => {
    const { pages, facts } = pagesOf(FORMS['snappy']!);
    await expect(checkPages(pages, { ...facts, codec: 'LZ4_RAW' })).rejects.toThrow(
      'it is compressed with LZ4_RAW, which is not read; write it with Snappy, gzip or Zstandard',
    );
  });

  it('refuses runs that are longer than the values', async () => {
    // A page of version 1 in Thrift: its sizes, then one value in PLAIN, with one byte of levels: a run of 2^27 values.
    const levels = [5, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x01, 1];
    const size = levels.length * 2;
    const header = [0x15, 0, 0x15, size, 0x15, size, 0x2c, 0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];
    const pages = Uint8Array.from([...header, ...levels]).buffer;
    const facts = { codec: 'UNCOMPRESSED', values: 1, definition: 1, repetition: 0, leastBytes: 4 } as const;
    await expect(checkPages(pages, facts)).rejects.toThrow('the page at byte 0 of a column is damaged');
  });
});

describe('readParquetRecords', () => {
  it('reads what was written, in every form', async () => {
    const rows = own.map((name, i) => [path[i] ?? null, name, BigInt(i), i % 3 === 0]);
    for (const [name, form] of Object.entries(FORMS)) {
      const found = await read(form);
      expect(
        found.map((row) => row.map((value) => value ?? null)),
        name,
      ).toEqual(rows);
    }
  });

  it.each(Object.keys(FORMS))('ends soon whatever byte of a file is wrong: %s', async (name) => {
    const good = new Uint8Array(FORMS[name]!);
    const values = isRelease ? [0, 1, 0x40, 0x7f, 0x80, 0xff] : [0, 0xff];
    for (const at of someOf([...good.keys()], 7)) {
      for (const value of values) {
        const bytes = Uint8Array.from(good);
        bytes[at] = value;
        const before = process.cpuUsage();
        await read(bytes).catch((error: unknown) => expect(error).toBeInstanceOf(Error));
        const { user, system } = process.cpuUsage(before);
        expect((user + system) / 1e6, `byte ${at} is ${value}`).toBeLessThan(2);
      }
    }
  });

  it('reads runs that are filled up beyond the last row, as DuckDB writes them', async () => {
    const rows: unknown[] = [];
    for await (const row of readParquetRecords(fixturePath('tables/duckdb.parquet'), ['path', 'label']))
      rows.push([row['path'], row['label']]);
    const expected = Array.from({ length: 20 }, (_, i) => [`p/${i}.jpg`, i % 5 === 4 ? null : `c${i % 3}`]);
    expect(rows).toEqual(expected);
  });

  it('says which column a file lacks', async () => {
    await expect(read(write({ columnData: [{ name: 'a', data: ['x'], type: 'STRING' }] }))).rejects.toThrow(
      'it has no column "path"',
    );
  });
});
