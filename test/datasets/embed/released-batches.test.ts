/** Memory of features that were written or copied serves later runs. Nobody who still holds features sees them change. */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import {
  createFeatureExtractor,
  embedFolder,
  embedImages,
  embedStream,
  openDataset,
  type FeatureExtractor,
} from 'onnx-tapir';
import { beforeAll, describe, expect, it } from 'vitest';
import { createFeatureExtractor as createInside } from '../../../build/modules/extract/create-feature-extractor.js';
import { embedBatches, openDecodeLanes } from '../../../build/modules/datasets/embed/embed-batches.js';
import { setUpEmbedding } from '../../../build/modules/datasets/embed/embed-options.js';
import { openSource } from '../../../build/modules/datasets/sources/open-source.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';

const photos = projectPath('examples/photos');
const OPTIONS = { transform: { resize: 64, crop: 64 }, batch: 4 } as const;
const REQUEST = { layer1: 'map', avgpool: 'vector' } as const;
type Key = (typeof REQUEST)[keyof typeof REQUEST];
/** The bytes of each feature, one row after the other. */
type Held = Record<Key, readonly Float32Array[]>;

const open = (): Promise<FeatureExtractor<Key>> =>
  createFeatureExtractor(tinyResNet(), REQUEST, { binding: 'c' });
const joined = (arrays: readonly Float32Array[]): Buffer =>
  Buffer.concat(
    arrays.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)),
  );

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

/** What the features are, computed without reuse: batches are never released. */
let truth: Record<Key, Buffer>;

interface Run {
  /** The features of all batches as they were when their batch came. */
  readonly seen: Held;
  /** The arrays that a consumer still holds after the last batch. */
  readonly held: Held;
}

async function runBatches(release: (batch: number) => boolean): Promise<Run> {
  await using extractor = await createInside(tinyResNet(), REQUEST, { binding: 'c' });
  const setup = setUpEmbedding(extractor, { ...OPTIONS });
  await using lanes = openDecodeLanes(extractor, setup);
  const [seen, held] = [newHeld(), newHeld()];
  let number = 0;
  for await (const batch of embedBatches(extractor, openSource(photos, setup.source), setup, lanes)) {
    for (const key of ['map', 'vector'] as const) {
      const data = batch.features[key]!.data as Float32Array;
      seen[key].push(data.slice());
      held[key].push(data);
    }
    if (release(number++)) batch.release();
    // Later runs have time to write to what was released.
    await setTimeout(20);
  }
  return { seen, held };
}

function newHeld(): Record<Key, Float32Array[]> {
  return { map: [], vector: [] };
}

beforeAll(async () => {
  const { seen, held } = await runBatches(() => false);
  expect(held).toEqual(seen);
  truth = { map: joined(seen.map), vector: joined(seen.vector) };
});

describe('features of a batch', () => {
  it.each([
    ['all are released', () => true],
    ['some are released', (batch: number) => batch % 2 === 1],
  ])('are empty or as they were, whoever holds them, if %s', async (_, release) => {
    const { seen, held } = await runBatches(release);
    let moved = 0;
    for (const key of ['map', 'vector'] as const) {
      expect(joined(seen[key]).equals(truth[key])).toBe(true);
      for (const [i, array] of held[key].entries()) {
        if (array.length === 0) moved++;
        else expect(array).toEqual(seen[key][i]);
        // The last ones wait for a run that does not come.
        if (!release(i)) expect(array.length).toBeGreaterThan(0);
      }
    }
    expect(moved).toBeGreaterThan(0);
  });

  it('stay with who takes rows: an iterator, and a stream that is read late', async () => {
    await using extractor = await open();
    const rows = await collect(embedImages(extractor, photos, OPTIONS));
    const paths = rows.map(({ path }) => join(photos, path!));
    const stream = embedStream(extractor, { ...OPTIONS, highWaterMark: 64 });
    for (const path of paths) stream.write(path);
    stream.end();
    await setTimeout(200);
    const streamed = await collect(stream);
    for (const key of ['map', 'vector'] as const)
      for (const list of [rows, streamed])
        expect(
          joined(list.map(({ features }) => features![key].data as Float32Array)).equals(truth[key]),
        ).toBe(true);
  });

  it.each(['npy', 'arrow', 'parquet'] as const)('reach %s files as they are', async (format) => {
    const out = mkdtempSync(join(scratchFolder(), 'released-'));
    await using extractor = await open();
    await embedFolder(extractor, photos, { ...OPTIONS, out: join(out, 'data'), format, shardSize: 12 });
    const dataset = await openDataset(join(out, 'data'));
    for (const key of ['map', 'vector'] as const) {
      const blocks = await collect(dataset.blocks(key));
      expect(joined(blocks.map(({ data }) => data)).equals(truth[key])).toBe(true);
    }
  });
});
