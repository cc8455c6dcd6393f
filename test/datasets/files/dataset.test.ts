import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, openDataset, type FeatureBlock } from 'onnx-tapir';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { fixturePath, projectPath, scratchFolder } from '../../support/fixtures.js';
import { readNpy } from '../../support/npy.js';

const scratch = scratchFolder();
const out = join(scratch, 'out');
/** Files of `out`, relative to it. */
const FEATURES = 'features/embedding/embedding-00000.npy';
const METADATA = 'metadata/metadata-00001.parquet';

beforeAll(async () => {
  const photos = join(scratch, 'photos');
  cpSync(projectPath('examples/photos/sea'), photos, { recursive: true });
  cpSync(fixturePath('preprocess/bad/truncated.jpg'), join(photos, 'cut.jpg'));
  const { bytes } = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 });
  const extractor = await createFeatureExtractor(bytes, { avgpool: 'embedding', layer4: 'map/4' });
  await embedFolder(extractor, photos, { out, batch: 2, shardSize: 2 });
  await extractor.close();
});

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** A copy of the dataset with something done to it. */
function broken(name: string, change: (folder: string) => void): string {
  const folder = join(scratch, name);
  cpSync(out, folder, { recursive: true });
  change(folder);
  return folder;
}

/** What the tests change in a manifest. */
interface Changeable {
  format: unknown;
  formatVersion: unknown;
  counts: { ok: number };
  features: { embedding: { dims: unknown; format: unknown; rows: number } };
  shards: { firstRow: unknown; features: { embedding?: unknown } }[];
}

function changeManifest(folder: string, change: (manifest: Changeable) => void): void {
  const path = join(folder, 'manifest.json');
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as Changeable;
  change(manifest);
  writeFileSync(path, JSON.stringify(manifest));
}

describe('openDataset', () => {
  it('gives the inputs in the order of the metadata', async () => {
    const dataset = await openDataset(out);
    const rows = await collect(dataset.rows());
    const { inputs, ok } = dataset.manifest.counts;
    expect(rows).toHaveLength(inputs);
    expect(rows[0]).toMatchObject({
      path: 'cut.jpg',
      status: 'error',
      row: null,
      errorCode: 'IMAGE_TRUNCATED',
      errorMessage: expect.stringMatching(/./),
    });
    expect(rows[1]).toMatchObject({
      stamp: { sizeBytes: expect.any(Number) as number, sha256: null },
      path: 'sea-0.jpg',
      status: 'ok',
      row: 0,
      errorCode: null,
      errorMessage: null,
      width: 400,
      height: 300,
    });
    expect(rows.slice(1).map(({ row }) => row)).toEqual(Array.from({ length: ok }, (_, row) => row));
  });

  it.each(['embedding', 'map/4'])(
    'gives each input with its vector of "%s", and may be left at any row',
    async (key) => {
      const dataset = await openDataset(out);
      const all = await collect(dataset.vectors(key));
      const inputs = (await collect(dataset.rows())).filter(({ row }) => row !== null);
      expect(all).toMatchObject(inputs);
      expect(all).toHaveLength(inputs.length);
      const data = (await collect(dataset.blocks(key))).flatMap((block) => Array.from(block.data));
      expect(all.flatMap(({ vector }) => Array.from(vector))).toEqual(data);
      for await (const { row, path, vector } of dataset.vectors(key)) {
        expect({ row, path }).toEqual({ row: 0, path: 'sea-0.jpg' });
        expect(vector.byteLength).toBe(vector.buffer.byteLength);
        break;
      }
      expect(() => dataset.vectors('other')).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
    },
  );

  it.each([
    ['embedding', undefined],
    ['embedding', 1],
    ['map/4', 1000],
  ])('gives the features of "%s" in order, %s rows at a time', async (key, rowsPerBlock) => {
    const dataset = await openDataset(out);
    const { dims } = dataset.manifest.features[key]!;
    const blocks = await collect(dataset.blocks(key, { rowsPerBlock }));
    const files = dataset.manifest.shards.map(({ features }) => readNpy(join(out, features[key]!)));
    expect(blocks.map(({ firstRow }) => firstRow)).toEqual(
      blocks.map((_, index) => blocks.slice(0, index).reduce((sum, { rows }) => sum + rows, 0)),
    );
    expect(blocks.every((block) => block.dims.join() === dims.join())).toBe(true);
    if (rowsPerBlock === 1) expect(blocks.every(({ rows }) => rows === 1)).toBe(true);
    const joined = (parts: readonly ArrayLike<number>[]): number[] =>
      parts.flatMap((part) => Array.from(part));
    expect(joined(blocks.map(({ data }: FeatureBlock) => data))).toEqual(
      joined(files.map(({ data }) => data as Float32Array)),
    );
  });

  it('refuses what it was not asked for', async () => {
    const dataset = await openDataset(out);
    const invalid = expect.objectContaining({ code: 'OPTION_INVALID' });
    expect(() => dataset.blocks('other')).toThrow(invalid);
    expect(() => dataset.blocks('embedding', { rowsPerBlock: 0 })).toThrow(invalid);
    await expect(openDataset('')).rejects.toThrow(invalid);
  });

  it.each([
    ['a folder that is not there', (folder: string) => rmSync(folder, { recursive: true }), /no such folder/],
    ['an unfinished one', (folder: string) => rmSync(join(folder, 'manifest.json')), /run the same/],
    ['no JSON', (folder: string) => writeFileSync(join(folder, 'manifest.json'), '{'), /JSON/],
    ['no manifest', (folder: string) => changeManifest(folder, (it) => (it.format = 'x')), /no manifest/],
    ['a later version', (folder: string) => changeManifest(folder, (it) => (it.formatVersion = 99)), /99/],
    [
      'dims that are no sizes',
      (folder: string) => changeManifest(folder, (it) => (it.features.embedding.dims = [-1])),
      /dims/,
    ],
    [
      'JSON lines, which earlier versions wrote',
      (folder: string) => changeManifest(folder, (it) => (it.features.embedding.format = 'jsonl')),
      /"embedding" is stored as JSON lines.*--format npy, arrow or parquet/,
    ],
    [
      'rows that overlap',
      (folder: string) => changeManifest(folder, (it) => (it.shards[1]!.firstRow = 0)),
      /begins at row/,
    ],
    [
      'a manifest without its first shard',
      (folder: string) => changeManifest(folder, (it) => it.shards.shift()),
      /shard 0 begins at row \d+, not 0/,
    ],
    [
      'a manifest without its last shard',
      (folder: string) => changeManifest(folder, (it) => it.shards.pop()),
      /its shards hold \d+ inputs, its counts say \d+/,
    ],
    [
      'counts that do not add up',
      (folder: string) => changeManifest(folder, (it) => it.counts.ok--),
      /its counts say \d+ \(\d+ ok, \d+ errors\)/,
    ],
    [
      'a feature of other rows',
      (folder: string) => changeManifest(folder, (it) => it.features.embedding.rows++),
      /its shards hold \d+ rows, feature "embedding" says/,
    ],
    [
      'a path that leaves the folder',
      (folder: string) =>
        changeManifest(folder, (it) => (it.shards[0]!.features.embedding = '../secret.npy')),
      /leaves the folder/,
    ],
    [
      'a missing entry',
      (folder: string) => changeManifest(folder, (it) => delete it.shards[0]!.features.embedding),
      /lacks/,
    ],
  ])('refuses %s', async (name, change, message) => {
    const folder = broken(name, change);
    await expect(openDataset(folder)).rejects.toThrow(
      expect.objectContaining({ code: 'DATASET_INVALID', message: expect.stringMatching(message) }),
    );
  });

  it.each([
    ['a missing file', (file: string) => rmSync(file), /missing/],
    ['a short file', (file: string) => truncateSync(file, 300), /300 bytes/],
    ['a file without a header', (file: string) => truncateSync(file, 100), /ends at byte 100/],
    ['another file', (file: string) => writeFileSync(file, 'x'.repeat(1000)), /no \.npy/],
    [
      'another shape',
      (file: string) => cpSync(join(out, 'features/map%2F4/map%2F4-00000.npy'), file),
      /shape is \[1,128,7,7\]/,
    ],
    [
      'a link that leaves the folder',
      (file: string) => {
        rmSync(file);
        symlinkSync(join(out, FEATURES), file);
      },
      /leaves the folder/,
    ],
  ])('refuses %s of features', async (name, change, message) => {
    const dataset = await openDataset(broken(name, (folder) => change(join(folder, FEATURES))));
    await expect(collect(dataset.blocks('embedding'))).rejects.toThrow(
      expect.objectContaining({ code: 'DATASET_INVALID', message: expect.stringMatching(message) }),
    );
  });

  it.each([
    ['missing metadata', (file: string) => rmSync(file)],
    ['cut metadata', (file: string) => truncateSync(file, 100)],
    ['a folder for metadata', (file: string) => (rmSync(file), mkdirSync(file))],
  ])('refuses %s', async (name, change) => {
    const dataset = await openDataset(broken(name, (folder) => change(join(folder, METADATA))));
    await expect(collect(dataset.rows())).rejects.toThrow(
      expect.objectContaining({ code: 'DATASET_INVALID' }),
    );
  });
});
