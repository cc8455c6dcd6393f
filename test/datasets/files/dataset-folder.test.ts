/** The folder of a dataset: who may take it, and which files in it are ever removed. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { clearLeftovers, listShardFiles, takeFolder } from '../../../src/datasets/files/dataset-folder.js';
import { featurePath, metadataPath } from '../../../src/datasets/files/file-names.js';
import { JournalWriter, type JournalShard } from '../../../src/datasets/files/journal.js';
import { encodeNpy } from '../../../src/datasets/formats/npy.js';
import { NOTHING_REDUCED } from '../../../src/datasets/records/reduced-images.js';
import { IDENTITY } from '../../support/datasets.js';
import { scratchFolder } from '../../support/fixtures.js';

const LEFTOVERS = [
  'features/v/v-00001.npy',
  'features/v/.tapir-7-0123abcd.partial',
  'features/w/w-00000.arrow',
  'features/v/v-00001.piece-000.npy',
];
const FOREIGN = [
  'features/v/index.faiss',
  'features/v/v-1.npy',
  'features/v/v-00001.npy.bak',
  'features/v/w-00001.npy',
  'features/notes.txt',
  'features/deep/er/er-00001.npy',
  'metadata/NOTES.md',
  'metadata/metadata-00001.csv',
  'README.md',
];

function newFolder(files: readonly string[] = []): string {
  const folder = join(mkdtempSync(join(scratchFolder(), 'folder-')), 'out');
  for (const file of files) {
    mkdirSync(join(folder, dirname(file)), { recursive: true });
    writeFileSync(join(folder, file), file);
  }
  return folder;
}

/** All files, and folders that hold none. */
function entriesOf(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory() || readdirSync(join(entry.parentPath, entry.name)).length === 0)
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
}

/** A dataset with one finished shard, and more files. */
async function newDataset(more: readonly string[] = []): Promise<string> {
  const path = featurePath('v', 0, 'npy');
  const metadata = metadataPath(0);
  const folder = newFolder([path, metadata, 'manifest.json', ...more]);
  const shard: JournalShard = {
    type: 'shard',
    number: 0,
    inputs: 1,
    rows: 1,
    firstRow: 0,
    metadata,
    features: { v: { path, dtype: 'float32', dims: [2] } },
    reduced: NOTHING_REDUCED,
  };
  writeFileSync(join(folder, path), NPY);
  const journal = await JournalWriter.open(folder, IDENTITY, undefined);
  await journal.append(shard);
  await journal[Symbol.asyncDispose]();
  return folder;
}

/** One row of two numbers. */
const NPY = encodeNpy({ dtype: 'float32', dims: [1, 2], data: Float32Array.of(1, 2) });

describe('resuming', () => {
  it('removes the files of unfinished shards, and no others', async () => {
    const folder = await newDataset([...LEFTOVERS, ...FOREIGN]);
    const taken = await takeFolder(folder, false);
    expect(taken.before?.shards).toHaveLength(1);
    await clearLeftovers(taken, ['v']);
    await taken.lock.release();
    expect(entriesOf(folder)).toEqual(
      [
        ...FOREIGN,
        'features/v/v-00000.npy',
        'journal.jsonl',
        'manifest.json',
        'metadata/metadata-00000.parquet',
      ]
        .concat('features/w')
        .toSorted(),
    );
  });
});

describe('a dataset that has lost a file', () => {
  it.each([featurePath('v', 0, 'npy'), metadataPath(0)])('is not resumed: %s', async (file) => {
    const folder = await newDataset(LEFTOVERS);
    rmSync(join(folder, file));
    const before = entriesOf(folder);
    const taken = await takeFolder(folder, false);
    await expect(clearLeftovers(taken, ['v'])).rejects.toMatchObject({
      code: 'DATASET_INVALID',
      message: expect.stringMatching(/00000.*it is missing/) as unknown,
    });
    await taken.lock.release();
    expect(entriesOf(folder)).toEqual(before);
  });
});

describe('a dataset with a file that is longer than its rows', () => {
  it('is not resumed: rows would be those of other inputs', async () => {
    const folder = await newDataset();
    const path = join(folder, featurePath('v', 0, 'npy'));
    writeFileSync(path, Buffer.concat([NPY.subarray(0, 192), Buffer.alloc(8), NPY.subarray(192)]));
    const taken = await takeFolder(folder, false);
    await expect(clearLeftovers(taken, ['v'])).rejects.toMatchObject({
      code: 'DATASET_INVALID',
      message: expect.stringMatching(/v-00000\.npy".*it has 208 bytes, 1 rows need 200/) as unknown,
    });
    await taken.lock.release();
  });
});

describe('overwriting', () => {
  it('removes the files of the dataset, and no others', async () => {
    const folder = await newDataset([...LEFTOVERS, ...FOREIGN]);
    const taken = await takeFolder(folder, true);
    await taken.lock.release();
    expect(taken.before).toBeUndefined();
    expect(entriesOf(folder)).toEqual([...FOREIGN, 'journal.jsonl'].toSorted());
  });

  it('leaves nothing but an empty journal of a dataset that is alone in its folder', async () => {
    const folder = await newDataset(LEFTOVERS);
    await (await takeFolder(folder, true)).lock.release();
    expect(entriesOf(folder)).toEqual(['journal.jsonl']);
  });

  it('removes files of a format that earlier versions wrote', async () => {
    const folder = await newDataset(['features/v/v-00000.jsonl']);
    await (await takeFolder(folder, true)).lock.release();
    expect(await listShardFiles(folder)).toEqual([]);
  });

  it('can be resumed after an interruption', async () => {
    const folder = await newDataset();
    await (await takeFolder(folder, true)).lock.release();
    // The interruption came before the last file was removed.
    mkdirSync(join(folder, 'metadata'));
    writeFileSync(join(folder, metadataPath(0)), '');
    const taken = await takeFolder(folder, false);
    expect(taken.before).toBeUndefined();
    await clearLeftovers(taken, ['v']);
    await taken.lock.release();
    expect(entriesOf(folder)).toEqual(['features/v', 'journal.jsonl', 'metadata']);
  });
});

describe('a folder without a journal', () => {
  it('is taken if it is new, empty, or holds only what a failed first run leaves', async () => {
    const folder = newFolder();
    for (let attempt = 0; attempt < 2; attempt++) {
      const taken = await takeFolder(folder, false);
      await clearLeftovers(taken, ['a', 'b']);
      // The journal could not be created.
      await taken.lock.release();
    }
    expect(entriesOf(folder)).toEqual(['features/a', 'features/b', 'metadata']);
    writeFileSync(join(folder, '.tapir-lock.0af1'), '');
    await expect(takeFolder(folder, false)).resolves.toBeDefined();
  });

  it.each([
    ['a file', ['notes.txt']],
    ['a manifest', ['manifest.json']],
    ['a file among the features', ['features/v/v-00000.npy']],
    ['a file beside the outputs', ['features/notes.txt']],
    ['a folder of an output that holds folders', ['features/v/w/x']],
    ['metadata', ['metadata/metadata-00000.parquet']],
    ['another folder', ['data/x']],
  ])('is refused if it holds %s, and stays as it is', async (_what, files) => {
    for (const overwrite of [false, true]) {
      const folder = newFolder(files);
      await expect(takeFolder(folder, overwrite)).rejects.toMatchObject({ code: 'OUTPUT_EXISTS' });
      expect(entriesOf(folder)).toEqual(files);
    }
  });

  it('is refused if it is a file', async () => {
    const folder = newFolder(['file']);
    await expect(takeFolder(join(folder, 'file'), false)).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
    });
    expect(existsSync(join(folder, 'file'))).toBe(true);
  });
});
