/** Photos that Parquet files hold give the rows that the same photos give as files. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import {
  createFeatureExtractor,
  embedFolder,
  mergeDataset,
  openDataset,
  type EmbedFolderOptions,
  type EmbedSource,
  type EmbedSummary,
} from 'onnx-tapir';
import { expect, it } from 'vitest';
import { openSource } from '../../../src/datasets/sources/open-source.js';
import { fixturePath, projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';

const scratch = scratchFolder();
const TABLE = fixturePath('tables/photos.parquet');
const OPTIONS = { transform: { resize: 64, crop: 64 } } as const;

/** The name and the vector of each row, and the error of each failure. */
async function embed(source: EmbedSource, out: string): Promise<[string | null, unknown][]> {
  const model = join(scratch, 'model.onnx');
  writeFileSync(model, tinyResNet());
  await using extractor = await createFeatureExtractor(model, { fc: 'v' });
  await embedFolder(extractor, source, { out: join(scratch, out), ...OPTIONS });
  const dataset = await openDataset(join(scratch, out));
  const rows: [string | null, unknown][] = [];
  for await (const { path, status, errorCode } of dataset.rows())
    if (status !== 'ok') rows.push([path, errorCode]);
  for await (const { path, vector } of dataset.vectors('v')) rows.push([path, [...vector]]);
  return rows;
}

it('gives the rows of the same photos as files, and has nothing to do when it runs again', async () => {
  const folder = join(scratch, 'photos');
  mkdirSync(folder);
  const names: string[] = [];
  for await (const { path, image } of openSource(TABLE))
    if (image instanceof Uint8Array) {
      names.push(path ?? 'nameless.png');
      writeFileSync(join(folder, names.at(-1)!), image);
    }
  const held = await embed(TABLE, 'held');
  const files = await embed(
    names.map((name) => join(folder, name)),
    'files',
  );
  expect(held.slice(0, 2)).toEqual([
    ['beside.png', 'IMAGE_NOT_FOUND'],
    ['#3', 'IMAGE_EMPTY'],
  ]);
  const vectors = held.slice(2);
  expect(vectors.map(([path]) => path)).toEqual(['one.png', '#1', 'two.png']);
  expect(vectors.map(([, vector]) => vector)).toEqual(files.map(([, vector]) => vector));
  expect(await embed(TABLE, 'held')).toEqual(held);
});

it('embeds all rows of one name, in parts too, and knows them when it runs again', async () => {
  const photos = ['sea/sea-0.jpg', 'city/city-0.jpg', 'sea/sea-1.jpg'].map((name) =>
    readFileSync(projectPath(`examples/photos/${name}`)),
  );
  const file = join(scratch, 'one-name.parquet');
  const columnData = [
    { name: 'image', data: photos, type: 'BYTE_ARRAY' as const },
    { name: 'path', data: photos.map(() => '1.jpg'), type: 'STRING' as const },
  ];
  writeFileSync(file, new Uint8Array(parquetWriteBuffer({ columnData })));
  await using extractor = await createFeatureExtractor(tinyResNet(), { fc: 'v' });
  const run = (out: string, options: Partial<EmbedFolderOptions> = {}): Promise<EmbedSummary> =>
    embedFolder(extractor, file, { out: join(scratch, out), column: 'image', ...OPTIONS, ...options });
  expect(await run('one-name')).toMatchObject({ embedded: 3, duplicates: 0 });
  const vectors = new Map<string | null, number[]>();
  for await (const { path, vector } of (await openDataset(join(scratch, 'one-name'))).vectors('v'))
    vectors.set(path, [...vector]);
  expect([...vectors.keys()]).toEqual(['1.jpg', '1.jpg#1', '1.jpg#2']);
  expect(new Set([...vectors.values()].map(String)).size).toBe(3);
  expect(await run('one-name', { removeMissing: true })).toMatchObject({
    skipped: 3,
    removed: 0,
    missing: 0,
  });
  for (const index of [0, 1]) await run('parts', { shard: { index, count: 2 } });
  const merged = await mergeDataset(join(scratch, 'parts'), { source: file, column: 'image' });
  expect(merged.manifest.counts).toEqual({ inputs: 3, ok: 3, errors: 0 });
});
