/** Columns of lists: from the list to the metadata, and out of the dataset again. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import * as arrow from 'apache-arrow';
import { parquetMetadata } from 'hyparquet';
import {
  createFeatureExtractor,
  embedFolder,
  mergeDataset,
  openDataset,
  type FeatureExtractor,
} from 'onnx-tapir';
import { trainProbe } from 'onnx-tapir/features';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { scratchFolder } from '../../support/fixtures.js';
import { copyPhotos } from '../../support/photos.js';

const model = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes;
const folder = scratchFolder();
let paths: readonly string[];
let extractor: FeatureExtractor<'f'>;

beforeAll(async () => {
  copyPhotos(folder);
  paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.jpg'))
    .toSorted();
  extractor = await createFeatureExtractor(model, { avgpool: 'f' });
});
afterAll(() => extractor.close());

let count = 0;
const newOut = (): string => join(folder, `out-${count++}`);

/** Writes a list with a record for each path. */
function writeList(records: readonly Readonly<Record<string, unknown>>[]): string {
  const list = join(folder, `list-${count++}.jsonl`);
  writeFileSync(list, records.map((record) => JSON.stringify(record)).join('\n'));
  return list;
}

const labelOf = (path: string): string => path.split('/')[0]!;
const labelled = (): Record<string, unknown>[] => paths.map((path) => ({ path, label: labelOf(path) }));

/** The columns of a dataset's rows beside its own ones, by path. */
async function columnsOf(out: string): Promise<Map<string, Record<string, unknown>>> {
  const columns = new Map<string, Record<string, unknown>>();
  for await (const row of (await openDataset(out)).rows()) {
    const {
      path,
      status: _,
      row: _row,
      errorCode: _c,
      errorMessage: _m,
      width: _w,
      height: _h,
      stamp: _s,
      crop: _crop,
      tile: _tile,
      clipStart: _clipStart,
      ...more
    } = row;
    columns.set(path!, more);
  }
  return columns;
}

/** The types of the columns of each metadata file, from the tenth on. */
function schemasOf(out: string): string[] {
  return readdirSync(join(out, 'metadata')).map((name) => {
    const { buffer, byteOffset, length } = readFileSync(join(out, 'metadata', name));
    const { schema } = parquetMetadata(buffer.slice(byteOffset, byteOffset + length) as ArrayBuffer);
    return schema
      .slice(12)
      .map(({ name: column, type, converted_type: as }) => `${column} ${as ?? type}`)
      .join();
  });
}

const embed = (source: string, out: string, options: object = {}) =>
  embedFolder(extractor, source, { out, batch: 4, shardSize: 8, ...options });

describe('columns of a list', () => {
  it('come out with the vectors, in order, and with failed images', async () => {
    const out = newOut();
    const list = writeList([...labelled(), { path: 'gone.jpg', label: 'gone', row: 5 }]);
    await embed(list, out);
    const dataset = await openDataset<{ label: string; source_row: number | null }>(out);
    const seen: string[] = [];
    let at = 0;
    for await (const { path, row, vector, label, source_row: given } of dataset.vectors('f')) {
      expect([row, vector.length, label, given]).toEqual([at++, 128, labelOf(path!), null]);
      seen.push(path!);
    }
    expect(seen).toEqual(paths);
    expect((await columnsOf(out)).get('gone.jpg')).toEqual({ label: 'gone', source_row: 5 });
  });

  it('have one type in all metadata files, the narrowest that holds all values', async () => {
    const out = newOut();
    const records = paths.map((path, i) => ({
      path,
      n: i < 20 ? i : i + 0.5,
      mixed: i < 20 ? i : 'x',
      nothing: null,
      ...(i > 20 && { late: true }),
    }));
    await embed(writeList(records), out);
    expect(new Set(schemasOf(out))).toEqual(new Set(['n DOUBLE,mixed JSON,nothing UTF8,late BOOLEAN']));
    const columns = await columnsOf(out);
    expect(columns.get(paths[0]!)).toEqual({ n: 0, mixed: 0, nothing: null, late: null });
    expect(columns.get(paths[23]!)).toEqual({ n: 23.5, mixed: 'x', nothing: null, late: true });
  });

  it('stay when a run is resumed, with images that failed, changed or are gone', async () => {
    const out = newOut();
    const broken = join(folder, 'broken.jpg');
    writeFileSync(broken, 'x');
    const records = [...labelled(), { path: 'broken.jpg', label: 'later' }];
    await embed(writeList(records.slice(10)), out);
    writeFileSync(broken, readFileSync(join(folder, paths[0]!)));
    const list = writeList([...records.slice(0, 5), ...records.slice(12)]);
    const { embedded, removed } = await embed(list, out, { removeMissing: true });
    expect([embedded, removed]).toEqual([6, 2]);
    const columns = await columnsOf(out);
    const expected = [...records.slice(0, 5), ...records.slice(12)];
    expect(columns).toEqual(new Map(expected.map(({ path, label }) => [path as string, { label }])));
    // A run that adds nothing leaves the files as they are.
    const files = readdirSync(join(out, 'metadata')).map((name) => readFileSync(join(out, 'metadata', name)));
    await embed(list, out);
    expect(
      readdirSync(join(out, 'metadata')).map((name) => readFileSync(join(out, 'metadata', name))),
    ).toEqual(files);
    rmSync(broken);
  });

  it('of parts are joined by a merge', async () => {
    const out = newOut();
    const list = writeList(paths.map((path, i) => ({ path, [i % 2 ? 'odd' : 'even']: i })));
    for (let index = 0; index < 3; index++) await embed(list, out, { shard: { index, count: 3 } });
    await mergeDataset(out, { source: list });
    expect(new Set(schemasOf(out)).size).toBe(1);
    const columns = await columnsOf(out);
    for (const [i, path] of paths.entries())
      expect(columns.get(path)).toEqual(i % 2 ? { odd: i, even: null } : { odd: null, even: i });
  });

  it('are labels', async () => {
    const out = newOut();
    await embed(writeList(labelled()), out);
    const dataset = await openDataset(out);
    const options = { kind: 'centroid', folds: 2 } as const;
    const probe = await trainProbe(dataset, 'column:label', options);
    expect(probe.classes).toEqual([...new Set(paths.map(labelOf))]);
    expect((await trainProbe(dataset, 'by-folder', options)).results).toEqual(probe.results);
    await expect(trainProbe(dataset, 'column:labl', options)).rejects.toThrow(
      /no column "labl"; its columns are path, status, .*, label/,
    );
  });

  it('come from streams, too', async () => {
    const out = newOut();
    const vectors = {
      label: arrow.vectorFromArray(paths.map(labelOf), new arrow.Utf8()),
      path: arrow.vectorFromArray(
        paths.map((path) => join(folder, path)),
        new arrow.Utf8(),
      ),
      n: arrow.vectorFromArray([...paths.keys()], new arrow.Int32()),
      // May be as large as photos.
      bytes: arrow.vectorFromArray(
        paths.map(() => new Uint8Array(9)),
        new arrow.Binary(),
      ),
    };
    const bytes = arrow.tableToIPC(new arrow.Table(vectors), 'stream');
    const stream = { paths: Readable.from([bytes]), format: 'arrow' } as const;
    await embedFolder(extractor, stream, { out, batch: 4 });
    const found = await columnsOf(out);
    for (const [i, path] of paths.entries())
      expect(found.get(join(folder, path))).toEqual({ label: labelOf(path), n: i });
  });
});
