/** Photos that are gone: they are counted, marked as removed when asked, and embedded again when they come back. */
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  embedFolder,
  mergeDataset,
  openDataset,
  type EmbedSource,
  type EmbedSummary,
  type FeatureExtractor,
} from 'onnx-tapir';
import { findDuplicates } from 'onnx-tapir/features';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { readMetadata, type MetadataRow } from '../../../src/datasets/formats/metadata.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { photosAndPlace } from '../../support/photos.js';

const model = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes;
const GONE = ['city/city-0.jpg', 'dunes/cut.jpg', 'sea/sea-1.jpg'];
let extractor: FeatureExtractor<'f'>;

beforeAll(async () => {
  extractor = await createFeatureExtractor(model, { avgpool: 'f' });
});
afterAll(() => extractor.close());

const run = (source: EmbedSource, out: string, options: object = {}): Promise<EmbedSummary> =>
  embedFolder(extractor, source, { out, batch: 4, shardSize: 8, ...options });
const runRemoving = (source: EmbedSource, out: string, options: object = {}): Promise<EmbedSummary> =>
  run(source, out, { removeMissing: true, ...options });

const remove = (photos: string, names: readonly string[]): void => {
  for (const name of names) rmSync(join(photos, name));
};

/** All rows of the files, as pandas or DuckDB read them. */
async function filedRows(out: string): Promise<MetadataRow[]> {
  const rows: MetadataRow[] = [];
  for (const file of readdirSync(join(out, 'metadata')).toSorted())
    for await (const row of readMetadata(join(out, 'metadata', file))) rows.push(row);
  return rows;
}

async function pathsOf(out: string): Promise<(string | null)[]> {
  const paths = [];
  for await (const { path } of (await openDataset(out)).rows()) paths.push(path);
  return paths;
}

const contentOf = (out: string): string[] =>
  ['features/f', 'metadata'].flatMap((folder) =>
    readdirSync(join(out, folder))
      .toSorted()
      .map((file) => `${file} ${readFileSync(join(out, folder, file)).toString('base64')}`),
  );

describe('photos that are gone', () => {
  it('are counted, and stay without removeMissing', async () => {
    const { photos, out } = photosAndPlace('gone-');
    await run(photos, out);
    remove(photos, GONE);
    const before = contentOf(out);
    expect(await run(photos, out)).toMatchObject({ missing: 3, removed: 0 });
    expect(contentOf(out)).toEqual(before);
    expect(await pathsOf(out)).toHaveLength(26);
  });

  it('are marked as removed once, and left out by readers; features stay', async () => {
    const { photos, out } = photosAndPlace('gone-');
    await run(photos, out);
    const features = contentOf(out).filter((file) => file.startsWith('f-'));
    remove(photos, GONE);
    const { manifest, ...summary } = await runRemoving(photos, out);
    expect(summary).toMatchObject({ missing: 0, removed: 3 });
    expect(manifest.counts).toEqual({ inputs: 23, ok: 22, errors: 1, removed: 3 });
    expect(manifest.shards.reduce((sum, { deadRows }) => sum + deadRows, 0)).toBe(2);
    const removed = (await filedRows(out)).filter(({ status }) => status === 'removed');
    expect(removed.map(({ path }) => path)).toEqual(GONE);
    for (const row of removed) expect(row).toMatchObject({ row: null, errorCode: null });
    expect(await filedRows(out)).toHaveLength(26);
    expect(await pathsOf(out)).toEqual(expect.not.arrayContaining(GONE));
    expect(await pathsOf(out)).toHaveLength(23);
    expect(contentOf(out)).toEqual(expect.arrayContaining(features));
    const after = contentOf(out);
    expect(await runRemoving(photos, out)).toMatchObject({ missing: 0, removed: 0 });
    expect(await run(photos, out)).toMatchObject({ missing: 0, manifest: { counts: { removed: 3 } } });
    expect(contentOf(out)).toEqual(after);
  });

  it('are embedded again when they come back', async () => {
    const { photos, out } = photosAndPlace('gone-');
    await run(photos, out);
    remove(photos, GONE);
    await runRemoving(photos, out);
    for (const name of GONE.slice(0, 1))
      cpSync(projectPath(`examples/photos/${name}`), join(photos, name), { preserveTimestamps: true });
    const { manifest, embedded } = await runRemoving(photos, out);
    expect(embedded).toBe(2); // zero.jpg is tried again, too.
    expect(manifest.counts).toEqual({ inputs: 24, ok: 23, errors: 1, removed: 2 });
    expect((await filedRows(out)).filter(({ path }) => path === GONE[0])).toMatchObject([
      { status: 'ok', row: 24 },
    ]);
  });

  it('end "dedupe, delete, embed again"', async () => {
    const { photos, out } = photosAndPlace('gone-');
    cpSync(join(photos, 'sea/sea-0.jpg'), join(photos, 'sea/twin.jpg'));
    await run(photos, out);
    const { groups } = await findDuplicates(await openDataset(out), { cosine: 0.999999 });
    expect(groups).toHaveLength(1);
    remove(
      photos,
      groups.flatMap(({ copies }) => copies.map(({ path }) => path!)),
    );
    await runRemoving(photos, out);
    expect((await findDuplicates(await openDataset(out), { cosine: 0.999999 })).groups).toEqual([]);
  });
});

describe('a source that cannot be read', () => {
  it('removes nothing: an empty folder, and one without any photo of the dataset', async () => {
    const { photos, out } = photosAndPlace('gone-');
    await run(photos, out);
    const before = contentOf(out);
    const empty = mkdtempSync(join(scratchFolder(), 'empty-'));
    await expect(runRemoving(empty, out)).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
    renameSync(photos, `${photos}-away`);
    await expect(runRemoving(photos, out)).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
    cpSync(projectPath('examples/photos/sea'), photos, { recursive: true });
    await expect(runRemoving(photos, out)).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(/none of the 24 images .* mounted/),
    });
    rmSync(photos, { recursive: true });
    renameSync(`${photos}-away`, photos);
    expect(await run(photos, out)).toMatchObject({ missing: 4 }); // The four of the wrong folder.
    expect(contentOf(out)).toEqual(expect.arrayContaining(before));
  });

  it('keeps photos behind a link that leads nowhere', async () => {
    const { photos, out } = photosAndPlace('gone-');
    const disk = `${photos}-disk`;
    renameSync(join(photos, 'sea'), disk);
    symlinkSync(disk, join(photos, 'sea'));
    await run(photos, out);
    renameSync(disk, `${disk}-away`);
    remove(photos, GONE.slice(0, 1));
    const summary = await runRemoving(photos, out);
    expect(summary).toMatchObject({ removed: 1, missing: 4 });
    renameSync(`${disk}-away`, disk);
    expect(await runRemoving(photos, out)).toMatchObject({ removed: 0, missing: 0 });
  });
});

it('removes what a list no longer names', async () => {
  const { out } = photosAndPlace('gone-');
  const list = [0, 1, 2].map((i) => projectPath(`examples/photos/sea/sea-${i}.jpg`));
  await run(list, out);
  expect(await run(list.slice(1), out)).toMatchObject({ missing: 1, removed: 0 });
  expect(await runRemoving(list.slice(1), out)).toMatchObject({ missing: 0, removed: 1 });
});

it('removes in each part what belongs to it; a merge leaves it out, and asks for what is back', async () => {
  const { photos, out } = photosAndPlace('gone-');
  const runParts = async (): Promise<EmbedSummary[]> => {
    const summaries = [];
    for (const index of [0, 1])
      summaries.push(await runRemoving(photos, out, { shard: { index, count: 2 } }));
    return summaries;
  };
  await runParts();
  remove(photos, GONE);
  const summaries = await runParts();
  expect(summaries.reduce((sum, { removed }) => sum + removed, 0)).toBe(3);
  const { manifest } = await mergeDataset(out, { source: photos });
  expect(manifest.counts).toEqual({ inputs: 23, ok: 22, errors: 1 });
  expect(await filedRows(out)).toHaveLength(23);
  expect(await pathsOf(out)).toEqual(expect.not.arrayContaining(GONE));
  mkdirSync(join(photos, 'city'), { recursive: true });
  cpSync(projectPath(`examples/photos/${GONE[0]!}`), join(photos, GONE[0]!));
  await expect(mergeDataset(out, { source: photos })).rejects.toMatchObject({
    code: 'DATASET_INCOMPLETE',
    details: { missing: [GONE[0]] },
  });
});
