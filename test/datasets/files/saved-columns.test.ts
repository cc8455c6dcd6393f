/** Columns that are saved after a run: what reads them, and that no run, merge or second save loses a value. */
import { readdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, mergeDataset, openDataset, type Dataset } from 'onnx-tapir';
import { findDuplicates, searchDataset, trainProbe } from 'onnx-tapir/features';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lockFolder } from '../../../src/base/folder-lock.js';
import { removeColumn, saveColumn, type ColumnToSave } from '../../../src/datasets/files/saved-columns.js';
import type { RowPlace } from '../../../src/datasets/formats/saved-columns.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { copyPhotos } from '../../support/photos.js';

const scratch = scratchFolder();
const photos = join(scratch, 'photos');
let extractor: Awaited<ReturnType<typeof createFeatureExtractor>>;
let count = 0;
const newOut = (): string => join(scratch, `out-${count++}`);
const embed = (out: string, options: object = {}) =>
  embedFolder(extractor, photos, {
    out,
    transform: { resize: 64, crop: 64 },
    batch: 4,
    shardSize: 8,
    ...options,
  });

beforeAll(async () => {
  copyPhotos(photos);
  extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'e' });
});
afterAll(() => extractor.close());

const placeOf = (path: string): RowPlace => ({ path, crop: null, tile: null, clipStart: null });
/** Saves the photos of some folders with a value, and the others with another one. */
function save(
  dataset: Pick<Dataset, 'folder' | 'manifest'>,
  values: Readonly<Record<string, string>>,
  options: Partial<ColumnToSave> = {},
) {
  const given = Object.entries(values).map(([path, value]) => [placeOf(path), value] as const);
  return saveColumn(dataset, { name: 'keep', values: given, defaults: [], change: false, ...options });
}

/** The value of each photo that has one. */
async function valuesOf(out: string, name = 'keep'): Promise<Record<string, unknown>> {
  const values: Record<string, unknown> = {};
  for await (const row of (await openDataset<Record<string, unknown>>(out)).rows())
    if ((row[name] ?? null) !== null) values[row.path!] = row[name];
  return values;
}

function metadataOf(out: string): Buffer[] {
  return readdirSync(join(out, 'metadata')).map((name) => readFileSync(join(out, 'metadata', name)));
}

const SEA = ['sea/sea-0.jpg', 'sea/sea-1.jpg', 'sea/sea-2.jpg', 'sea/sea-3.jpg'];
const CITY = ['city/city-0.jpg', 'city/city-1.jpg'];
const LABELS = Object.fromEntries([
  ...SEA.map((path) => [path, 'yes'] as const),
  ...CITY.map((path) => [path, 'no'] as const),
]);

describe('a saved column', () => {
  let dataset: Dataset;
  let out: string;
  beforeAll(async () => {
    out = newOut();
    await embed(out);
    const before = metadataOf(out);
    await save(await openDataset(out), LABELS);
    expect(metadataOf(out)).toEqual(before);
    dataset = await openDataset(out);
  });

  it('is in the rows and beside the vectors', async () => {
    expect(await valuesOf(out)).toEqual(LABELS);
    const seen: unknown[] = [];
    for await (const row of (await openDataset<{ keep: string | null }>(out)).vectors('e'))
      seen.push(row.keep);
    expect(seen.filter((value) => value === 'yes')).toHaveLength(4);
    expect(seen.filter((value) => value === null)).toHaveLength(18);
  });

  it('is what a probe learns', async () => {
    const options = { kind: 'centroid', folds: 2 } as const;
    const probe = await trainProbe(dataset, 'column:keep', options);
    expect(probe.classes).toEqual(['no', 'yes']);
    expect(probe.results!.rows).toBe(6);
    expect(probe.warnings).toContain('18 images have no label and are left out');
    await expect(trainProbe(dataset, 'column:kept')).rejects.toThrow(
      /no column "kept"; its columns are .*, keep/,
    );
  });

  it('chooses what is searched, compared and learned', async () => {
    const query = [new Float32Array(dataset.manifest.features['e']!.dims[0]!).fill(1)];
    const [hits] = await searchDataset(dataset, query, { where: 'column:keep=yes', top: 100 });
    expect(new Set(hits!.map(({ path }) => path))).toEqual(new Set(SEA));
    const [all] = await searchDataset(dataset, query, { top: 100 });
    const ranked = all!.filter(({ path }) => SEA.includes(path!)).map(({ path }) => path);
    expect(hits!.map(({ path }) => path)).toEqual(ranked);
    const [byFolder] = await searchDataset(dataset, query, { where: 'by-folder=sea', top: 100 });
    expect(byFolder!.map(({ path }) => path)).toEqual(ranked);
    const groups = await findDuplicates(dataset, { where: 'column:keep=no', cosine: 1e-6 });
    expect([groups.compared, groups.groups.length]).toEqual([2, 1]);
    const labels = new Map([...SEA, ...CITY].map((path) => [path, path]));
    const probe = await trainProbe(dataset, labels, {
      where: 'column:keep=yes',
      kind: 'centroid',
      folds: 0,
    });
    expect(probe.classes).toEqual(SEA);
  });

  it.each([
    ['column:keep=maybe', /"no", "yes"|"yes", "no"/],
    ['column:keep', /such as column:label=cat/],
    ['=x', /such as column:label=x/],
    ['keep=yes', /such as column:keep=yes/],
    ['nowhere=x', /by-folder/],
  ])('%s is refused', async (where, message) => {
    const search = searchDataset(dataset, [new Float32Array(1)], { where, key: 'e' });
    await expect(search).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await expect(findDuplicates(dataset, { where })).rejects.toThrow(message);
  });

  it('is not changed without being asked', async () => {
    const held = readFileSync(join(out, 'columns.parquet'));
    await expect(save(dataset, { 'sea/sea-0.jpg': 'x' })).rejects.toMatchObject({ code: 'OUTPUT_EXISTS' });
    for (const name of ['row', 'path', 'tile_x', 'vector', 'a=b', 'a\nb', ' a', '', 'x'.repeat(101)])
      await expect(save(dataset, { 'sea/sea-0.jpg': 'x' }, { name })).rejects.toMatchObject({
        code: 'OPTION_INVALID',
      });
    for (const value of ['', 'a\u0000b', 'x'.repeat(101)])
      await expect(save(dataset, { 'sea/sea-0.jpg': value }, { name: 'other' })).rejects.toMatchObject({
        code: 'OPTION_INVALID',
      });
    const nameless = { name: 'other', values: [[{ ...placeOf(''), path: null }, 'x']] as const };
    await expect(save(dataset, {}, nameless)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    const lock = await lockFolder(out);
    await expect(save(dataset, { 'sea/sea-0.jpg': 'x' }, { name: 'other' })).rejects.toMatchObject({
      code: 'OUTPUT_LOCKED',
    });
    await lock.release();
    expect(readFileSync(join(out, 'columns.parquet'))).toEqual(held);
  });

  it('keeps the values that a change does not name, and other columns', async () => {
    await save(dataset, { 'sea/sea-0.jpg': 'first' }, { name: 'other' });
    const defaults = [placeOf('sea/sea-1.jpg'), placeOf('dunes/dunes-0.jpg')].map(
      (place) => [place, 'no'] as const,
    );
    await save(dataset, { 'sea/sea-0.jpg': 'no' }, { change: true, defaults });
    expect(await valuesOf(out)).toEqual({ ...LABELS, 'sea/sea-0.jpg': 'no', 'dunes/dunes-0.jpg': 'no' });
    expect(await valuesOf(out, 'other')).toEqual({ 'sea/sea-0.jpg': 'first' });
  });
});

it('two saves at once lose nothing', async () => {
  const out = newOut();
  await embed(out);
  const dataset = await openDataset(out);
  const names = ['a', 'b', 'c', 'd'];
  const all = await Promise.allSettled(names.map((name) => save(dataset, { [SEA[0]!]: name }, { name })));
  for (const [i, { status }] of all.entries())
    expect(Object.values(await valuesOf(out, names[i]!)).length).toBe(status === 'fulfilled' ? 1 : 0);
  expect(all.some(({ status }) => status === 'fulfilled')).toBe(true);
});

describe('a later run', () => {
  it('keeps the values of photos that stay, change, go and come back', async () => {
    const out = newOut();
    await embed(out);
    await save(await openDataset(out), LABELS);
    const added = join(photos, 'added.jpg');
    writeFileSync(added, readFileSync(join(photos, CITY[0]!)));
    const bytes = readFileSync(join(photos, SEA[1]!));
    rmSync(join(photos, SEA[1]!));
    utimesSync(join(photos, SEA[0]!), 1, 1);
    const { changed, removed } = await embed(out, { removeMissing: true });
    expect([changed, removed]).toEqual([1, 1]);
    const { [SEA[1]!]: _gone, ...others } = LABELS;
    expect(await valuesOf(out)).toEqual(others);
    writeFileSync(join(photos, SEA[1]!), bytes);
    rmSync(added);
    await embed(out);
    expect(await valuesOf(out)).toEqual(LABELS);
    await embed(out, { overwrite: true });
    expect(await valuesOf(out)).toEqual(LABELS);
  });

  it('keeps them through merges, of parts and of the whole', async () => {
    const out = newOut();
    for (let index = 0; index < 2; index++) await embed(out, { shard: { index, count: 2 } });
    for (const part of ['0-of-2', '1-of-2']) {
      const dataset = await openDataset(join(out, 'parts', part));
      const paths: string[] = [];
      for await (const { path } of dataset.rows()) if (SEA.includes(path!)) paths.push(path!);
      await save(dataset, Object.fromEntries(paths.map((path) => [path, part])));
    }
    await mergeDataset(out);
    const ofParts = await valuesOf(out);
    expect(Object.keys(ofParts).toSorted()).toEqual(SEA);
    await expect(removeColumn(await openDataset(out), 'keep')).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('a part has this one') as string,
    });
    // What is saved for the whole counts.
    await save(await openDataset(out), { [SEA[0]!]: 'whole' }, { change: true });
    await mergeDataset(out);
    expect(await valuesOf(out)).toEqual({ ...ofParts, [SEA[0]!]: 'whole' });
    const probe = await trainProbe(await openDataset(out), 'column:keep', { kind: 'centroid', folds: 0 });
    expect(probe.classes).toContain('whole');
  });
});

it('a saved column can be removed, and the others stay', async () => {
  const out = newOut();
  await embed(out);
  const dataset = await openDataset(out);
  await save(dataset, { [SEA[0]!]: 'yes', [SEA[1]!]: 'no' });
  await save(dataset, { [SEA[0]!]: 'other' }, { name: 'stays' });
  await removeColumn(dataset, 'keep');
  expect(await valuesOf(out)).toEqual({});
  expect(await valuesOf(out, 'stays')).toEqual({ [SEA[0]!]: 'other' });
  await expect(removeColumn(dataset, 'keep')).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    message: expect.stringContaining('a saved column: stays') as string,
  });
  await removeColumn(dataset, 'stays');
  expect(readdirSync(out)).not.toContain('columns.parquet');
});

it('crops of a photo have a value each', async () => {
  const out = newOut();
  await embed(out, { transform: { resize: 80, crop: 64, crops: 'five' }, cropRows: 'each' });
  const dataset = await openDataset(out);
  const values = [[{ ...placeOf(SEA[0]!), crop: 3 }, 'yes']] as const;
  await saveColumn(dataset, { name: 'keep', values, defaults: [], change: false });
  const found: unknown[] = [];
  for await (const row of (await openDataset<{ keep: string | null }>(out)).rows())
    if (row.keep !== null) found.push([row.path, row.crop, row.keep]);
  expect(found).toEqual([[SEA[0], 3, 'yes']]);
  const vectors = [new Float32Array(dataset.manifest.features['e']!.dims[0]!).fill(1)];
  const [hits] = await searchDataset(dataset, vectors, { where: 'column:keep=yes' });
  expect(hits).toMatchObject([{ path: SEA[0], crop: 3 }]);
});

it('a column of the list is not covered by a saved one', async () => {
  const out = newOut();
  const list = join(photos, 'list.csv');
  writeFileSync(list, `path,keep\n${SEA.map((path) => `${path},list`).join('\n')}\n`);
  await embedFolder(extractor, list, { out, transform: { resize: 64, crop: 64 } });
  rmSync(list);
  const saving = save(await openDataset(out), { [SEA[0]!]: 'x' }, { change: true });
  await expect(saving).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  expect(Object.values(await valuesOf(out))).toEqual(['list', 'list', 'list', 'list']);
});

it('a table that is damaged, or leads out of the dataset, is refused', async () => {
  const out = newOut();
  await embed(out);
  const table = join(out, 'columns.parquet');
  writeFileSync(table, 'no table');
  await expect(valuesOf(out)).rejects.toMatchObject({ code: 'DATASET_INVALID' });
  await expect(save(await openDataset(out), LABELS)).rejects.toMatchObject({ code: 'DATASET_INVALID' });
  expect(readFileSync(table, 'utf8')).toBe('no table');
  rmSync(table);
  writeFileSync(join(scratch, 'elsewhere.parquet'), '');
  symlinkSync(join(scratch, 'elsewhere.parquet'), table);
  await expect(valuesOf(out)).rejects.toMatchObject({ code: 'DATASET_INVALID' });
});
