/** Tables of vectors, as pyarrow writes them, into datasets. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isTapirError, type ErrorCode } from '../../../src/base/errors.js';
import { openDataset } from '../../../src/datasets/files/dataset.js';
import { importTables } from '../../../src/datasets/import/import-tables.js';
import { readTable } from '../../../src/datasets/import/read-tables.js';
import { mergeDataset } from '../../../src/datasets/embed/merge-dataset.js';
import { readRecordedModel } from '../../../src/datasets/embed/recorded-model.js';
import { createFeatureWriter } from '../../../src/datasets/formats/feature-files.js';
import { findDuplicates } from '../../../src/products/features/dedupe/find-duplicates.js';
import { createRandom } from '../../../src/base/random.js';
import { fixturePath, scratchFolder } from '../../support/fixtures.js';

const table = (name: string): string => fixturePath(`tables/${name}.parquet`);
const names = { column: 'embedding', path: 'path' };
const folder = scratchFolder();
async function failure(call: Promise<unknown>, code: ErrorCode): Promise<Error> {
  const error = await call.then(
    () => new Error('nothing was thrown'),
    (thrown: unknown) => thrown as Error,
  );
  expect(error).toMatchObject({ code });
  return error;
}

let count = 0;
const newOut = (): string => join(folder, `out-${count++}`);

async function vectorsOf(out: string, key = 'embedding') {
  const rows = [];
  for await (const { path, row, vector, label, year } of (
    await openDataset<{ label?: string; year?: number | null }>(out)
  ).vectors(key))
    rows.push({ path, row, vector: [...vector], label, year });
  return rows;
}

const EXPECTED = Array.from({ length: 40 }, (_, i) => ({
  path: `folder ${i % 3}/ü${i}.jpg`,
  row: i,
  vector: [0, 1, 2, 3].map((j) => i + j / 4),
  label: i % 2 ? 'cat' : 'dog',
  year: i % 7 === 0 ? null : 2000 + i,
}));

describe('a table', () => {
  it.each([
    ['snappy-groups', 'float32'],
    ['gzip-v2', 'float16'],
    ['brotli-large', 'float64'],
    ['plain-small-pages', 'float32'],
    ['split-v2', 'float64'],
  ])('%s becomes a dataset of %s, with its other columns', async (name, dtype) => {
    const out = newOut();
    const manifest = await importTables({ ...names, tables: [table(name)], out });
    expect(manifest).toMatchObject({
      source: { kind: 'table', location: table(name) },
      model: null,
      request: [],
      transform: null,
      run: null,
      counts: { inputs: 40, ok: 40, errors: 0 },
      features: { embedding: { dtype, dims: [4], rows: 40 } },
    });
    expect(JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'))).toEqual(manifest);
    expect(await vectorsOf(out)).toEqual(EXPECTED);
  });

  it('may lie in several files, or in a folder of them, and have numbers for names', async () => {
    const parts = join(folder, 'parts-of-ray');
    mkdirSync(parts);
    copyFileSync(table('snappy-groups'), join(parts, '0.parquet'));
    writeFileSync(join(parts, '_SUCCESS'), '');
    const out = newOut();
    await importTables({ ...names, tables: [parts], out });
    expect(await vectorsOf(out)).toEqual(EXPECTED);
    const other = newOut();
    await importTables({ ...names, path: 'id', tables: [table('numbered')], out: other });
    expect((await vectorsOf(other)).map(({ path }) => path)).toEqual(['7', '8', '1152921504606846976']);
  });

  it('may be a file of another dataset', async () => {
    const file = join(folder, 'embedding-00000.parquet');
    const writer = await createFeatureWriter('parquet', file, 'embedding', 'float32', [3]);
    const tensor = {
      dtype: 'float32',
      dims: [2, 3],
      data: Float32Array.of(1, 2, 3, 4, 5, Number.NaN),
    } as const;
    await writer.append({ tensor, firstRow: 0, paths: ['a.jpg', 'b.jpg'] });
    await writer.finish();
    const out = newOut();
    await importTables({ ...names, tables: [file], out });
    expect((await vectorsOf(out)).map(({ vector }) => vector)).toEqual([
      [1, 2, 3],
      [4, 5, Number.NaN],
    ]);
  });

  it('of photos that failed keeps their errors', async () => {
    const out = newOut();
    const { counts } = await importTables({ ...names, tables: [table('outcomes')], out });
    expect(counts).toEqual({ inputs: 3, ok: 2, errors: 1 });
    const rows = [];
    for await (const row of (await openDataset(out)).rows()) rows.push(row);
    expect(rows[1]).toMatchObject({
      path: 'b.jpg',
      label: 'y',
      row: null,
      errorCode: 'IMAGE_TRUNCATED',
      errorMessage: 'it was cut off',
    });
    expect(Object.keys(rows[0]!)).not.toContain('source_status');
  });
});

describe('an import that cannot be done says why, and leaves nothing', () => {
  it.each([
    ['wrong-null', /row 1 \("b\.jpg"\) has no vector/],
    ['wrong-empty', /row 1 \("b\.jpg"\) has an empty vector/],
    ['wrong-gap', /row 1 \("b\.jpg"\) has a vector without its number 1/],
    ['wrong-lengths', /row 1 \("b\.jpg"\) has a vector of 1 numbers, row 0 \("a\.jpg"\) of ".*" one of 2/],
    ['wrong-integers', /"embedding" holds lists of INT64; it must hold lists of float16, float32 or float64/],
    ['wrong-numbers', /"embedding" holds no lists/],
    ['wrong-nested', /"embedding" holds lists of lists/],
    ['wrong-structs', /"embedding" holds structs/],
    ['wrong-twice', /row 1 \("a\.jpg"\) has a name that occurred before/],
    ['wrong-nameless', /row 1 has no text in the column "path"/],
    ['wrong-rows', /it has no rows/],
    ['none', /ENOENT/],
  ])('%s', async (name, message) => {
    const out = newOut();
    const error = await failure(importTables({ ...names, tables: [table(name)], out }), 'SOURCE_INVALID');
    expect(error.message).toMatch(message);
    expect(readdirSync(folder).filter((entry) => entry.startsWith(basename(out)))).toEqual([]);
  });

  it.each([
    [
      { column: 'vector', path: 'path' },
      /no column "vector"; its columns are path, label, .* \(option "column" names/,
    ],
    [
      { column: 'embedding', path: 'file' },
      /no column "file"; its columns are path, label, .* \(option "path" names/,
    ],
  ])('of columns that do not exist: %o', async (columns, message) => {
    const plan = { ...columns, tables: [table('snappy-groups')], out: newOut() };
    expect((await failure(importTables(plan), 'SOURCE_INVALID')).message).toMatch(message);
  });

  it('of two tables whose vectors differ', async () => {
    const plan = { ...names, column: 'embedding', out: newOut() };
    const tables = [table('snappy-groups'), table('outcomes')];
    expect((await failure(importTables({ ...plan, tables }), 'SOURCE_INVALID')).message).toMatch(
      /outcomes.parquet" .* row 0 \("a\.jpg"\) has a vector of 2 numbers, row 0 \(.*\) of ".*snappy-groups.parquet" one of 4/,
    );
  });

  it('into a folder that holds something, which stays', async () => {
    const out = newOut();
    mkdirSync(out);
    writeFileSync(join(out, 'mine.txt'), 'mine');
    const plan = { ...names, tables: [table('snappy-groups')], out };
    expect((await failure(importTables(plan), 'OUTPUT_EXISTS')).message).toMatch(/it is not empty/);
    expect(readdirSync(out)).toEqual(['mine.txt']);
    const empty = newOut();
    mkdirSync(empty);
    await importTables({ ...plan, out: empty });
    await failure(importTables({ ...plan, out: empty }), 'OUTPUT_EXISTS');
    expect(await vectorsOf(empty)).toEqual(EXPECTED);
  });

  it('when it is stopped', async () => {
    const out = newOut();
    const signal = AbortSignal.abort(new Error('enough'));
    const plan = { ...names, tables: [table('snappy-groups')], out, signal };
    await expect(importTables(plan)).rejects.toThrow('enough');
    expect(readdirSync(folder).filter((entry) => entry.startsWith(basename(out)))).toEqual([]);
  });
});

describe('an imported dataset', () => {
  it('is a part of a merged one', async () => {
    const out = newOut();
    await importTables({ ...names, tables: [table('snappy-groups')], out: join(out, 'parts/0-of-2') });
    const second = { ...names, path: 'id', tables: [table('numbered')], out: join(out, 'parts/1-of-2') };
    await importTables(second);
    const { manifest } = await mergeDataset(out);
    expect(manifest).toMatchObject({ model: null, run: null, counts: { inputs: 43, ok: 43 } });
    expect((await vectorsOf(out)).slice(0, 40)).toEqual(EXPECTED);
  });

  it('has no model, and says so', async () => {
    const out = newOut();
    await importTables({ ...names, tables: [table('snappy-groups')], out });
    const dataset = await openDataset(out);
    expect(() => readRecordedModel(dataset)).toThrow(/was imported from a table: its model is unknown/);
    expect((await findDuplicates(dataset, { cosine: 0.999999 })).groups.length).toBeGreaterThan(0);
  });
});

it('a damaged table is an error, never a wrong number of rows or an endless loop', async () => {
  const random = createRandom(7);
  const outcomes = { error: 0, same: 0 };
  for (const name of ['gzip-v2', 'plain-small-pages', 'snappy-groups', 'split-v2']) {
    const bytes = readFileSync(table(name));
    for (let round = 0; round < 60; round++) {
      const damaged = Buffer.from(bytes);
      damaged[Math.floor(random() * bytes.length)]! ^= 1 << Math.floor(8 * random());
      const file = join(folder, 'damaged.parquet');
      writeFileSync(file, damaged);
      try {
        let rows = 0;
        for await (const block of readTable(file, names)) rows += block.filter(({ vector }) => vector).length;
        expect(rows).toBe(40);
        outcomes.same++;
      } catch (error) {
        if (!isTapirError(error, 'SOURCE_INVALID')) throw error;
        outcomes.error++;
      }
    }
  }
  expect(outcomes.error).toBeGreaterThan(50);
  expect(outcomes.same).toBeGreaterThan(10);
});
