/** The same images give the same probe, however their dataset was written: at once, in parts, in shards, in half precision. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  embedFolder,
  mergeDataset,
  openDataset,
  type Dataset,
  type EmbedSummary,
  type FeatureExtractor,
} from 'onnx-tapir';
import { findDuplicates, trainProbe, type Probe } from 'onnx-tapir/features';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../../../src/base/random.js';
import { encodePng } from '../../../../src/photos/images/encode.js';
import { tinyResNet } from '../../../support/fixtures.js';
import { photosAndPlace } from '../../../support/photos.js';
import { biasOf, farthest, weightsOf } from '../../../support/probe-data.js';

const { photos, out } = photosAndPlace('probe-datasets-');
const PARTS = 3;
/** What each kind is solved to, on weights of up to about 0.5. */
const EXACT = { logistic: 1e-5, ridge: 1e-9 } as const;
/** Float16 keeps 11 bits of each element. */
const HALF = 2e-3;
const KINDS = ['logistic', 'ridge'] as const;

let extractor: FeatureExtractor<'e'>;
let whole: Dataset;

function embed(name: string, options: object = {}): Promise<EmbedSummary> {
  const transform = { resize: 64, crop: 64 };
  return embedFolder(extractor, photos, { out: join(out, name), transform, batch: 4, ...options });
}

const open = (name: string): Promise<Dataset> => openDataset(join(out, name));

function train(dataset: Dataset, kind: (typeof KINDS)[number], strength = 1): Promise<Probe> {
  return trainProbe(dataset, 'by-folder', { kind, strength, folds: 0 });
}

async function pathsOf(dataset: Dataset): Promise<(string | null)[]> {
  const paths: (string | null)[] = [];
  for await (const { path, row } of dataset.rows()) if (row !== null) paths[row] = path;
  return paths;
}

/** How far apart the weights and biases of two probes are. */
function distance(a: Probe, b: Probe): number {
  return Math.max(farthest(weightsOf(a), weightsOf(b)), farthest([biasOf(a)], [biasOf(b)]));
}

beforeAll(async () => {
  extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'e' });
  await embed('whole');
  whole = await open('whole');
});
afterAll(() => extractor.close());

describe.each(KINDS)('%s', (kind) => {
  let expected: Probe;
  beforeAll(async () => {
    expected = await train(whole, kind);
    // The tolerances tell probes apart: another strength is farther away.
    expect(distance(expected, await train(whole, kind, 2))).toBeGreaterThan(10 * HALF);
  });

  it('is the same of parts that were merged, in another order', async () => {
    for (let index = 0; index < PARTS; index++) await embed(kind, { shard: { index, count: PARTS } });
    await mergeDataset(join(out, kind), { source: photos });
    const merged = await open(kind);
    expect(await pathsOf(merged)).not.toEqual(await pathsOf(whole));
    expect(new Set(await pathsOf(merged))).toEqual(new Set(await pathsOf(whole)));
    const probe = await train(merged, kind);
    expect(probe.classes).toEqual(expected.classes);
    expect(distance(probe, expected)).toBeLessThan(EXACT[kind]);
  });

  it.each(['npy', 'arrow', 'parquet'] as const)('is the same of shards, as %s', async (format) => {
    await embed(format, { format, shardSize: 5, overwrite: true });
    const sharded = await open(format);
    expect(sharded.manifest.shards.length).toBeGreaterThan(2);
    expect(distance(await train(sharded, kind), expected)).toBeLessThan(EXACT[kind]);
  });

  it('is nearly the same of float16', async () => {
    await embed('half', { dtype: 'float16', overwrite: true });
    const difference = distance(await train(await open('half'), kind), expected);
    expect(difference).toBeLessThan(HALF);
    expect(difference).toBeGreaterThan(0);
  });
});

it('holds out photos, not tiles: labels that say nothing are not predicted from the other tiles of a photo', async () => {
  const folder = join(out, 'plain');
  mkdirSync(folder);
  const labels = new Map<string, string>();
  const random = createRandom(5);
  for (let photo = 0; photo < 24; photo++) {
    const colour = [0, 1, 2].map(() => Math.floor(256 * random()));
    const data = Uint8Array.from({ length: 3 * 32 * 32 }, (_, i) => colour[i % 3]!);
    // oxlint-disable-next-line no-await-in-loop -- a few small files
    writeFileSync(join(folder, `${photo}.png`), await encodePng({ width: 32, height: 32, data }));
    labels.set(`${photo}.png`, random() < 0.5 ? 'a' : 'b');
  }
  const transform = { resize: 64, crop: 64 };
  await embedFolder(extractor, folder, { out: join(out, 'tiles'), transform, tiles: { size: 8 } });
  const tiles = await open('tiles');
  // The tiles of a photo are equal: from each other, they would all be right.
  const { results } = await trainProbe(tiles, labels, { kind: 'knn', neighbours: 1 });
  expect(results!.rows).toBe(24 * 16);
  expect(results!.accuracy).toBeLessThan(0.8);
  // Nor are they copies of each other.
  const { groups } = await findDuplicates(tiles, { cosine: 0.9999 });
  for (const { best, copies } of groups) {
    expect(best.tile).toMatchObject({ width: 8, height: 8 });
    for (const { path } of copies) expect(path).not.toBe(best.path);
  }
});
