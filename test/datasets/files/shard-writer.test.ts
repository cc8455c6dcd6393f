/** Batches into shards, without a model. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { readMetadata } from '../../../src/datasets/formats/metadata.js';
import { checkPieces, piecesOf } from '../../../src/datasets/files/join-pieces.js';
import type { JournalOpen, JournalShard } from '../../../src/datasets/files/journal.js';
import { FEATURE_FORMATS } from '../../../src/datasets/formats/feature-files.js';
import { ShardWriter, type ShardPlan } from '../../../src/datasets/files/shard-writer.js';
import type { TriedBatch, TriedInput } from '../../../src/photos/feeds/tried-input.js';
import { unreadableImage } from '../../../src/photos/images/file/image-errors.js';
import { scratchFolder } from '../../support/fixtures.js';
import { readNpy } from '../../support/npy.js';
import { makeTensor, type DType, type Tensor } from '../../../src/onnx/tensor/tensor.js';

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
    const writer = new ShardWriter(folder, plan, [], {
      commit: async (shard) => {
        // Its files are there.
        expect(existsSync(join(folder, shard.metadata))).toBe(true);
        committed.push(shard);
      },
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
    const next = new ShardWriter(folder, plan, committed, {
      commit: async (shard) => void committed.push(shard),
    });
    await next.append(batchOf(['5', 'z!'], [5]), ({ path }) => path !== 'z!');
    await next.finish();
    expect(committed[2]).toMatchObject({ number: 2, inputs: 1, rows: 1, firstRow: 4 });
  });

  it('refuses rows of other dims than before, in later runs too', async () => {
    const folder = newFolder();
    const committed: JournalShard[] = [];
    const records = { commit: async (shard: JournalShard) => void committed.push(shard) };
    const writer = new ShardWriter(folder, plan, [], records);
    await writer.append(batchOf(['1'], [1]));
    await expect(writer.append(batchOf(['2'], [2, 2], 2))).rejects.toMatchObject({
      code: 'OUTPUT_NOT_BATCHED',
    });
    await writer.finish();
    const next = new ShardWriter(folder, plan, committed, records);
    await expect(next.append(batchOf(['2'], [2, 2], 2))).rejects.toMatchObject({
      code: 'OUTPUT_NOT_BATCHED',
    });
  });

  it('removes the files of a shard that is not completed', async () => {
    const folder = newFolder();
    const writer = new ShardWriter(folder, plan, [], {
      commit: () => Promise.reject(new Error('no commit')),
    });
    await writer.append(batchOf(['1'], [1]));
    await writer.discard();
    expect(readdirSync(join(folder, 'features/a%2Fb'))).toEqual([]);
  });
});

describe('a shard that is saved in pieces', () => {
  const OUTPUTS = { f: ['float32', [3]], i: ['int8', [2, 1]], n: ['int64', []], b: ['bool', [3]] } as const;
  const folders = new Map(Object.keys(OUTPUTS).map((key) => [key, key]));

  /** Photos, some of which failed, with columns whose kind widens on the way. */
  const batches = Array.from({ length: 5 }, (_, at): TriedBatch => {
    const { items } = batchOf([`${at}-a`, `${at}-b!`, `${at}-c`].slice(at % 2), []);
    const values = ['1', '2.5', 'null', '"text"', '7'];
    const rows = items.filter(({ error }) => !error).length;
    const tensor = (dtype: DType, dims: readonly number[]): Tensor => {
      const numbers = Array.from(
        { length: rows * dims.reduce((a, b) => a * b, 1) },
        (_, i) => (at + i) % (dtype === 'bool' ? 2 : 99),
      );
      const data = {
        float32: () => Float32Array.from(numbers, (value) => value / 3),
        int8: () => Int8Array.from(numbers, (value) => -value),
        int64: () => BigInt64Array.from(numbers, (value) => 2n ** 60n + BigInt(value)),
        bool: () => Uint8Array.from(numbers),
      }[dtype as 'float32']();
      return makeTensor<DType>(dtype, [rows, ...dims], data);
    };
    return {
      items: items.map((item) => Object.assign(item, { columns: new Map([['column', values[at]!]]) })),
      features: Object.fromEntries(
        Object.entries(OUTPUTS).map(([key, [dtype, dims]]) => [key, tensor(dtype, dims)]),
      ),
    };
  });

  /** Writes all batches. After those of the given numbers, saves; a later run goes on if `isStopped`. */
  async function write(
    format: ShardPlan['format'],
    savedAfter: readonly number[],
    isStopped = false,
  ): Promise<{ folder: string; shards: JournalShard[]; files: Record<string, string> }> {
    const folder = newFolder();
    for (const key of folders.keys()) mkdirSync(join(folder, 'features', key));
    const settings: ShardPlan = { folders, shardSize: 9, format, half: false };
    const shards: JournalShard[] = [];
    let open: JournalOpen | undefined;
    const records = {
      commit: async (shard: JournalShard) => void shards.push(shard),
      keep: async (kept: JournalOpen) => void (open = kept),
    };
    let writer = new ShardWriter(folder, settings, shards, records);
    for (const [at, batch] of batches.entries()) {
      await writer.append(batch);
      if (!savedAfter.includes(at)) continue;
      open = undefined;
      await writer.save();
      if (!open || !isStopped) continue;
      await checkPieces(folder, open);
      const again = JSON.parse(JSON.stringify(open)) as JournalOpen;
      writer = new ShardWriter(folder, settings, [...shards], records, again);
    }
    await writer.finish();
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.\w+$/.test(file))
      .map((file) => [file, readFileSync(join(folder, file)).toString('base64')]);
    return { folder, shards, files: Object.fromEntries(files) as Record<string, string> };
  }

  it.each(FEATURE_FORMATS)('has the bytes of one that was written at once, as %s', async (format) => {
    const { shards, files } = await write(format, []);
    expect(shards).toHaveLength(2);
    for (const [savedAfter, isStopped] of [
      [[0, 1, 2, 3, 4], true],
      [[0, 1, 2, 3, 4], false],
      [[1], true],
      [[4], true],
    ] as const) {
      const pieces = await write(format, savedAfter, isStopped);
      expect(pieces.shards).toEqual(shards);
      expect(pieces.files).toEqual(files);
    }
  });

  it('is described by its pieces, and refused if one is missing or differs', async () => {
    const folder = newFolder();
    const unfinished = { path: 'p', tile: 2 };
    const kept: JournalOpen[] = [];
    const writer = new ShardWriter(folder, plan, [], {
      commit: () => Promise.resolve(),
      keep: async (piece) => void kept.push(piece),
    });
    await writer.append(batchOf(['1', 'x!'], [1]));
    await writer.save();
    await writer.append(batchOf(['2'], [2]));
    await writer.save();
    await writer.save();
    expect(kept).toHaveLength(2);
    const open = { ...kept[1]!, unfinished };
    expect(open).toMatchObject({ type: 'open', number: 0, pieces: 2, inputs: 3, rows: 2, firstRow: 0 });
    const metadata = [0, 1].map((piece) => `metadata/metadata-00000.piece-00${piece}.parquet`);
    expect(piecesOf(open)).toMatchObject([{ metadata: metadata[0] }, { metadata: metadata[1], unfinished }]);
    expect(piecesOf(open)[0]).not.toHaveProperty('unfinished');
    await checkPieces(folder, open);
    await expect(checkPieces(folder, { ...open, rows: 3 })).rejects.toMatchObject({
      code: 'DATASET_INVALID',
      message: expect.stringMatching(/its 2 pieces hold 3 inputs with 2 rows, the journal says 3 with 3/),
    });
    rmSync(join(folder, 'features/a%2Fb/a%2Fb-00000.piece-001.npy'));
    await expect(checkPieces(folder, open)).rejects.toMatchObject({ code: 'DATASET_INVALID' });
  });

  it('keeps its pieces if it is stopped while they are joined', async () => {
    const folder = newFolder();
    const stop = new AbortController();
    const kept: JournalOpen[] = [];
    const commit = vi.fn();
    const records = { commit, keep: async (piece: JournalOpen) => void kept.push(piece) };
    const writer = new ShardWriter(folder, { ...plan, signal: stop.signal }, [], records);
    await writer.append(batchOf(['1', '2', '3'], [1, 2, 3]));
    await writer.save();
    stop.abort(new Error('stop'));
    await expect(writer.append(batchOf(['4'], [4]))).rejects.toThrow('stop');
    await writer.save();
    expect([kept.length, kept.at(-1)?.inputs]).toEqual([2, 4]);
    const next = new ShardWriter(folder, plan, [], records, kept.at(-1));
    await next.finish();
    expect(commit).toHaveBeenCalledOnce();
    expect([...(readNpy(join(folder, 'features/a%2Fb/a%2Fb-00000.npy')).data as Float32Array)]).toEqual([
      1, 2, 3, 4,
    ]);
  });

  it('does not keep a batch that was appended in part', async () => {
    const folder = newFolder();
    const keep = vi.fn();
    const writer = new ShardWriter(folder, plan, [], { commit: () => Promise.resolve(), keep });
    await writer.append(batchOf(['1'], [1]));
    await expect(writer.append(batchOf(['2'], [2, 2], 2))).rejects.toThrow('rows of [2] after rows of [1]');
    await writer.save();
    expect(keep).not.toHaveBeenCalled();
    await writer.discard();
    expect(readdirSync(join(folder, 'metadata'))).toEqual([]);
  });
});
