import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { listParts, makePart, partPath, readPartName } from '../../../src/datasets/merge/parts.js';
import { scratchFolder } from '../../support/fixtures.js';

const newFolder = (): string => join(mkdtempSync(join(scratchFolder(), 'parts-')), 'out');

describe('the names of parts', () => {
  it('sort, and read back', () => {
    const shards = Array.from({ length: 12 }, (_, index) => ({ index, count: 12 }));
    const names = shards.map((shard) => partPath(shard));
    expect(names.toSorted()).toEqual(names);
    expect(names.map((name) => readPartName(name.replace('parts/', '')))).toEqual(shards);
    expect(partPath({ index: 0, count: 1 })).toBe('parts/0-of-1');
    // As a shell writes it.
    expect(readPartName('7-of-12')).toEqual({ index: 7, count: 12 });
  });

  it.each(['12-of-12', '007-of-12', '0-of-0', 'a-of-2', '0-of-2.bak', '', '1-of-1234567'])(
    'are not %j',
    (name) => expect(readPartName(name)).toBeUndefined(),
  );
});

describe('makePart', () => {
  it('makes the folder, again and beside others of its count', async () => {
    const folder = newFolder();
    expect(await listParts(folder)).toEqual([]);
    await makePart(folder, { index: 1, count: 3 });
    await makePart(folder, { index: 1, count: 3 });
    await makePart(folder, { index: 0, count: 3 });
    expect(await listParts(folder)).toEqual(['0-of-3', '1-of-3']);
  });

  it('lets at least one of two runs with different counts fail', async () => {
    const folder = newFolder();
    const made = await Promise.allSettled([2, 3].map((count) => makePart(folder, { index: 0, count })));
    const refused = made.filter(({ status }) => status === 'rejected');
    expect(refused.length).toBeGreaterThan(0);
    for (const { reason } of refused as PromiseRejectedResult[])
      expect(reason).toMatchObject({ code: 'OUTPUT_EXISTS' });
  });

  it('refuses a folder that holds something else, and leaves it as it is', async () => {
    const folder = newFolder();
    mkdirSync(folder);
    writeFileSync(join(folder, 'notes.txt'), '');
    await expect(makePart(folder, { index: 0, count: 2 })).rejects.toMatchObject({ code: 'OUTPUT_EXISTS' });
    expect(readdirSync(folder)).toEqual(['notes.txt']);
    await expect(makePart(join(folder, 'notes.txt'), { index: 0, count: 2 })).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
    });
  });
});
