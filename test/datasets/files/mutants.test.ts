/**
 * Damaged files of a dataset: every reader answers or gives a typed error, within 2 s of CPU time. More mutants than a release tries are
 * a number in `MUTANTS`: 3,000 of each kind were tried once.
 */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, isTapirError, mergeDataset, openDataset } from 'onnx-tapir';
import { findDuplicates, searchDataset, trainProbe } from 'onnx-tapir/features';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { beforeAll, describe, expect, it } from 'vitest';
import { createRandom, seedOf } from '../../../src/base/random.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import { rounds } from '../../support/rounds.js';

const MUTANTS = rounds(8, 300);
const MOST_CPU_SECONDS = 2;
/** A header or an index takes less than this at either end of a file. */
const END_BYTES = 600;
const PHOTOS = 12;

const scratch = mkdtempSync(join(scratchFolder(), 'mutants-'));
const photos = join(scratch, 'photos');
const model = modelBytes({
  inputs: [{ name: 'x', dims: ['n', 3, 8, 8] }],
  outputs: [{ name: 'y', dims: ['n', 3, 1, 1] }],
  nodes: [{ op: 'GlobalAveragePool', inputs: ['x'], outputs: ['y'] }],
});
const transform = { resize: 8, crop: 8 };

async function embed(out: string, format: 'npy' | 'arrow' | 'parquet', more: object = {}): Promise<void> {
  const extractor = await createFeatureExtractor(model, { y: 'v' });
  try {
    await embedFolder(extractor, photos, { out, format, transform, shardSize: 5, ...more });
  } finally {
    await extractor.close();
  }
}

/** A copy of a file with bytes changed, cut off, cut out or written twice. */
function mutate(good: Uint8Array, random: () => number): Uint8Array {
  const below = (most: number): number => Math.floor(random() * most);
  const how = random();
  const at = below(good.length);
  if (how < 0.2) return good.slice(0, at);
  if (how < 0.3) return Buffer.concat([good.slice(0, at), good.slice(at + below(64))]);
  if (how < 0.4) return Buffer.concat([good.slice(0, at), good.slice(at, at + below(200)), good.slice(at)]);
  const bytes = Uint8Array.from(good);
  for (let flips = 1 + below(6); flips > 0; flips--) {
    const near = below(Math.min(END_BYTES, good.length));
    const place = [near, good.length - 1 - near, below(good.length)][below(3)]!;
    bytes[place] = how < 0.8 ? bytes[place]! ^ (1 << below(8)) : below(256);
  }
  return bytes;
}

async function useDataset(folder: string): Promise<void> {
  const dataset = await openDataset(folder);
  for await (const row of dataset.rows())
    if (row.status !== 'ok' && row.status !== 'error') throw new Error(`status ${String(row.status)}`);
  await searchDataset(dataset, [[1, 2, 3]], { top: 2 });
  await findDuplicates(dataset);
}

/** What is damaged, in a copy of a dataset, and who reads it. */
const KINDS: Readonly<
  Record<
    string,
    readonly [format: 'npy' | 'arrow' | 'parquet', file: RegExp, use: (folder: string) => Promise<unknown>]
  >
> = {
  manifest: ['npy', /^manifest\.json$/, useDataset],
  metadata: ['npy', /^metadata\/.*00001\.parquet$/, useDataset],
  'features in .npy': ['npy', /^features\/.*00001\.npy$/, useDataset],
  'features in Arrow': ['arrow', /^features\/.*00001\.arrow$/, useDataset],
  'features in Parquet': ['parquet', /^features\/.*00001\.parquet$/, useDataset],
  'the journal of a run': [
    'npy',
    /^journal\.jsonl$/,
    async (folder) => {
      rmSync(join(folder, 'manifest.json'));
      await embed(folder, 'npy');
      await useDataset(folder);
    },
  ],
  'metadata that a run reads': ['npy', /^metadata\/.*00001\.parquet$/, (folder) => embed(folder, 'npy')],
  'the metadata of a part': [
    'npy',
    /^parts\/.*\/metadata\/.*00000\.parquet$/,
    (folder) => mergeDataset(folder),
  ],
  'the manifest of a part': ['npy', /^parts\/.*\/manifest\.json$/, (folder) => mergeDataset(folder)],
  'the journal of a part': ['npy', /^parts\/.*\/journal\.jsonl$/, (folder) => mergeDataset(folder)],
};

const good = (format: string): string => join(scratch, `good-${format}`);

beforeAll(async () => {
  mkdirSync(photos);
  for (let i = 0; i < PHOTOS; i++)
    cpSync(projectPath(`examples/photos/sea/sea-${i % 4}.jpg`), join(photos, `${i}.jpg`));
  writeFileSync(join(photos, 'broken.jpg'), 'nothing');
  for (const format of ['npy', 'arrow', 'parquet'] as const) await embed(good(format), format);
  for (const index of [0, 1]) await embed(good('parts'), 'npy', { shard: { index, count: 2 } });
});

describe('a damaged dataset', () => {
  it.each(Object.entries(KINDS))('%s', async (name, [format, pattern, use]) => {
    const source = good(pattern.source.startsWith('^parts') ? 'parts' : format);
    const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).map((path) =>
      path.replaceAll('\\', '/'),
    );
    const file = files.find((path) => pattern.test(path))!;
    expect(files.join(' ')).toMatch(file);
    const bytes = readFileSync(join(source, file));
    await tryMutants(name, bytes, async (mutant) => {
      const folder = mkdtempSync(join(scratch, 'copy-'));
      cpSync(source, folder, { recursive: true });
      writeFileSync(join(folder, file), mutant);
      await use(folder).finally(() => rmSync(folder, { recursive: true }));
    });
  });

  it.each(['csv', 'parquet'])('labels in %s', async (extension) => {
    const rows = Array.from(
      { length: PHOTOS },
      (_, i) => [`${i}.jpg`, i % 2 === 0 ? 'even' : 'odd'] as const,
    );
    const bytes =
      extension === 'csv'
        ? Buffer.from(`path,label\n${rows.map((row) => row.join()).join('\n')}\n`)
        : new Uint8Array(
            parquetWriteBuffer({
              columnData: [
                { name: 'path', data: rows.map(([path]) => path), type: 'STRING' },
                { name: 'label', data: rows.map(([, label]) => label), type: 'STRING' },
              ],
            }),
          );
    const labels = join(scratch, `labels.${extension}`);
    const dataset = await openDataset(good('npy'));
    await tryMutants(labels, bytes, async (mutant) => {
      writeFileSync(labels, mutant);
      await trainProbe(dataset, labels, { kind: 'centroid', folds: 0 });
    });
  });
});

async function tryMutants(
  seed: string,
  bytes: Uint8Array,
  use: (mutant: Uint8Array) => Promise<unknown>,
): Promise<void> {
  // Everything that it uses is loaded.
  await use(bytes);
  const random = createRandom(seedOf(seed));
  for (let i = 0; i < MUTANTS; i++) {
    const mutant = mutate(bytes, random);
    const before = process.cpuUsage();
    await use(mutant).catch((error: unknown) => {
      if (!isTapirError(error)) throw new Error(`mutant ${i} of ${seed}`, { cause: error });
    });
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1e6, `mutant ${i} of ${seed}`).toBeLessThan(MOST_CPU_SECONDS);
  }
}
