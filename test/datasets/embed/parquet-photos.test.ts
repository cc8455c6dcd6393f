/** Photos that Parquet files hold give the rows that the same photos give as files. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, openDataset, type EmbedSource } from 'onnx-tapir';
import { expect, it } from 'vitest';
import { openSource } from '../../../src/datasets/sources/open-source.js';
import { fixturePath, scratchFolder, tinyResNet } from '../../support/fixtures.js';

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
