/** The inputs of a dataset, over shards in which some of them occur again. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DatasetInputs } from '../../../src/datasets/files/dataset-inputs.js';
import { metadataPath } from '../../../src/datasets/files/file-names.js';
import { MetadataTable, readMetadata } from '../../../src/datasets/formats/metadata.js';
import type { JournalShard } from '../../../src/datasets/files/journal.js';
import { NOTHING_REDUCED } from '../../../src/datasets/records/reduced-images.js';
import type { TriedInput } from '../../../src/photos/feeds/tried-input.js';
import { unreadableImage } from '../../../src/photos/images/file/image-errors.js';
import { scratchFolder } from '../../support/fixtures.js';

const nothing = {
  errorMessage: null,
  width: null,
  height: null,
  stamp: null,
  crop: null,
  tile: null,
  clipStart: null,
};
/** Paths of the inputs of each shard; a failed one ends with "!". */
const SHARDS = [['a', 'b!', 'c'], ['d!', 'b'], ['c!']];

async function newDataset(
  names: readonly (readonly string[])[] = SHARDS,
): Promise<{ folder: string; shards: JournalShard[] }> {
  const folder = mkdtempSync(join(scratchFolder(), 'inputs-'));
  mkdirSync(join(folder, 'metadata'));
  const shards: JournalShard[] = [];
  let firstRow = 0;
  for (const [number, paths] of names.entries()) {
    const table = new MetadataTable();
    const before = firstRow;
    for (const name of paths) {
      const failed = name.endsWith('!');
      table.add({
        ...nothing,
        path: name.replace('!', ''),
        status: failed ? 'error' : 'ok',
        row: failed ? null : firstRow++,
        errorCode: failed ? 'IMAGE_EMPTY' : null,
      });
    }
    writeFileSync(join(folder, metadataPath(number)), await table.encode());
    shards.push({
      type: 'shard',
      number,
      inputs: paths.length,
      rows: firstRow - before,
      firstRow: before,
      metadata: metadataPath(number),
      features: {},
      reduced: NOTHING_REDUCED,
    });
  }
  return { folder, shards };
}

async function pathsIn(folder: string, shard: number): Promise<(string | null)[]> {
  const paths = [];
  for await (const { path } of readMetadata(join(folder, metadataPath(shard)))) paths.push(path);
  return paths;
}

describe('DatasetInputs', () => {
  it('counts each input once, with its latest outcome', async () => {
    const { folder, shards } = await newDataset();
    const inputs = await DatasetInputs.read(folder, shards);
    expect(inputs.counts).toEqual({ inputs: 4, ok: 2, errors: 2 });
    expect([0, 1, 2, 3].map((shard) => inputs.liveIn(shard))).toMatchObject([
      { inputs: 1, ok: 1 },
      { inputs: 2, ok: 1 },
      { inputs: 1, ok: 0 },
      { inputs: 0, ok: 0 },
    ]);
  });

  it('drops older outcomes from the metadata, and only those', async () => {
    const { folder, shards } = await newDataset();
    const inputs = await DatasetInputs.read(folder, shards);
    await inputs.settle(folder, shards);
    expect([await pathsIn(folder, 0), await pathsIn(folder, 1), await pathsIn(folder, 2)]).toEqual([
      ['a'],
      ['d', 'b'],
      ['c'],
    ]);
    // The same after reading it again.
    expect((await DatasetInputs.read(folder, shards)).counts).toEqual(inputs.counts);
  });

  it('gives URLs their names, which older datasets have as a whole, and loses no row', async () => {
    const url = (name: string, day: number): string => `https://u:p@h/${name}?X-Amz-Signature=${day}`;
    const { folder, shards } = await newDataset([
      [url('a', 1), `${url('b', 1)}!`, 'c?sig=1'],
      [url('b', 1), url('a', 2)],
    ]);
    const inputs = await DatasetInputs.read(folder, shards);
    expect(inputs.counts).toEqual({ inputs: 4, ok: 4, errors: 0 });
    expect(['https://h/a', 'https://h/b', 'c?sig=1'].map((name) => inputs.known.find(name)?.outcome)).toEqual(
      ['ok', 'ok', 'ok'],
    );
    await inputs.settle(folder, shards);
    const named = [
      ['https://h/a', 'c?sig=1'],
      ['https://h/b', 'https://h/a#2'],
    ];
    expect([await pathsIn(folder, 0), await pathsIn(folder, 1)]).toEqual(named);
    // They have their names then.
    const again = await DatasetInputs.read(folder, shards);
    await again.settle(folder, shards);
    expect([await pathsIn(folder, 0), await pathsIn(folder, 1)]).toEqual(named);
    expect(again.counts).toEqual(inputs.counts);
  });

  it('takes new and changed outcomes', async () => {
    const { folder, shards } = await newDataset();
    const inputs = await DatasetInputs.read(folder, shards);
    const tried = (path: string, failed: boolean): TriedInput => ({
      path,
      width: null,
      height: null,
      rows: [0, 1],
      reduction: 1,
      stamp: null,
      error: failed ? unreadableImage(path, 'it is odd') : null,
    });
    inputs.addNew(tried('e', false), 3);
    expect(inputs.isNews(tried('d', false))).toBe(true);
    expect(inputs.isNews(tried('d', true))).toBe(true);
    expect(inputs.isNews(tried('a', false))).toBe(false);
    inputs.replace(tried('d', true), 3);
    expect(inputs.isNews(tried('d', true))).toBe(false);
    expect(inputs.counts).toEqual({ inputs: 5, ok: 3, errors: 2 });
    expect(inputs.liveIn(3)).toMatchObject({ inputs: 2, ok: 1 });
  });
});
