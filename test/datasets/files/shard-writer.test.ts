/** Batches into shards, without a model. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readMetadata } from '../../../src/datasets/formats/metadata.js';
import type { JournalShard } from '../../../src/datasets/files/journal.js';
import { ShardWriter, type ShardPlan } from '../../../src/datasets/files/shard-writer.js';
import type { TriedBatch, TriedInput } from '../../../src/photos/feeds/tried-input.js';
import { unreadableImage } from '../../../src/photos/images/file/image-errors.js';
import { scratchFolder } from '../../support/fixtures.js';
import { readNpy } from '../../support/npy.js';

const plan: ShardPlan = { folders: new Map([['a/b', 'a%2Fb']]), shardSize: 4, format: 'npy', half: false };

function newFolder(): string {
  const folder = mkdtempSync(join(scratchFolder(), 'shards-'));
  for (const name of ['metadata', 'features/a%2Fb']) mkdirSync(join(folder, name), { recursive: true });
  return folder;
}

/** A batch of inputs by path; a failed one ends with "!". Rows hold their values. */
function batchOf(names: readonly string[], values: readonly number[], width = 1): TriedBatch {
  let row = 0;
  const items = names.map((name): TriedInput => ({
    path: name,
    rows: name.endsWith('!') ? [row, 0] : [row++, 1],
    width: 4,
    height: 3,
    reduction: 1,
    stamp: null,
    error: name.endsWith('!') ? unreadableImage(name, 'it is odd') : null,
  }));
  const rows = values.length / width;
  const features = {
    'a/b': { dtype: 'float32', dims: [rows, width], data: Float32Array.from(values) },
  } as const;
  return { items, features: rows > 0 ? features : {} };
}

describe('ShardWriter', () => {
  it('completes shards of a size, numbers rows over all of them, and commits each once', async () => {
    const folder = newFolder();
    const committed: JournalShard[] = [];
    const writer = new ShardWriter(folder, plan, [], async (shard) => {
      // Its files are there.
      expect(existsSync(join(folder, shard.metadata))).toBe(true);
      committed.push(shard);
    });
    await writer.append(batchOf(['1', 'x!', '2'], [1, 2]));
    expect(committed).toHaveLength(0);
    await writer.append(batchOf(['3', '4'], [3, 4]));
    await writer.append(batchOf(['y!'], []));
    await writer.finish();
    await writer.finish();
    expect(committed).toMatchObject([
      { number: 0, inputs: 5, rows: 4, firstRow: 0, metadata: 'metadata/metadata-00000.parquet' },
      { number: 1, inputs: 1, rows: 0, firstRow: 4, features: {} },
    ]);
    expect(committed[0]!.features).toEqual({
      'a/b': { path: 'features/a%2Fb/a%2Fb-00000.npy', dtype: 'float32', dims: [1] },
    });
    expect([...(readNpy(join(folder, 'features/a%2Fb/a%2Fb-00000.npy')).data as Float32Array)]).toEqual([
      1, 2, 3, 4,
    ]);
    const rows = [];
    for await (const { path, row, errorMessage } of readMetadata(join(folder, committed[0]!.metadata)))
      rows.push([path, row, errorMessage]);
    expect(rows).toEqual([
      ['1', 0, null],
      ['x!', null, 'it is odd'],
      ['2', 1, null],
      ['3', 2, null],
      ['4', 3, null],
    ]);
    // A later run continues.
    const next = new ShardWriter(folder, plan, committed, async (shard) => void committed.push(shard));
    await next.append(batchOf(['5', 'z!'], [5]), ({ path }) => path !== 'z!');
    await next.finish();
    expect(committed[2]).toMatchObject({ number: 2, inputs: 1, rows: 1, firstRow: 4 });
  });

  it('refuses rows of other dims than before, in later runs too', async () => {
    const folder = newFolder();
    const committed: JournalShard[] = [];
    const commit = async (shard: JournalShard): Promise<void> => void committed.push(shard);
    const writer = new ShardWriter(folder, plan, [], commit);
    await writer.append(batchOf(['1'], [1]));
    await expect(writer.append(batchOf(['2'], [2, 2], 2))).rejects.toMatchObject({
      code: 'OUTPUT_NOT_BATCHED',
    });
    await writer.finish();
    const next = new ShardWriter(folder, plan, committed, commit);
    await expect(next.append(batchOf(['2'], [2, 2], 2))).rejects.toMatchObject({
      code: 'OUTPUT_NOT_BATCHED',
    });
  });

  it('removes the files of a shard that is not completed', async () => {
    const folder = newFolder();
    const writer = new ShardWriter(folder, plan, [], () => Promise.reject(new Error('no commit')));
    await writer.append(batchOf(['1'], [1]));
    await writer.discard();
    expect(readdirSync(join(folder, 'features/a%2Fb'))).toEqual([]);
  });
});
