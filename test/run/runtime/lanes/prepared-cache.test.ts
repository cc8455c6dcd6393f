/** The cache of prepared models: complete entries or none, also with several processes. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import * as files from '../../../../src/base/atomic-file.js';
import { addEntry, findEntry, isWhole } from '../../../../src/run/runtime/lanes/prepared-cache.js';
import { PREPARED_GRAPH, PREPARED_WEIGHTS } from '../../../../src/run/runtime/lanes/prepared-files.js';
import { scratchFolder } from '../../../support/fixtures.js';

vi.mock('../../../../src/base/atomic-file.js', async (load) => {
  const real = await load<typeof files>();
  return { ...real, syncFile: vi.fn(real.syncFile), publish: vi.fn(real.publish) };
});

const scratch = scratchFolder();
let caches = 0;
const newCache = (limitBytes = 2 ** 33) => ({ folder: join(scratch, `cache-${caches++}`), limitBytes });
const keyOf = (digit: string): string => digit.repeat(64);
const fill =
  (text: string, weights = 100) =>
  async (folder: string): Promise<undefined> => {
    writeFileSync(join(folder, PREPARED_GRAPH), text);
    if (weights > 0) writeFileSync(join(folder, PREPARED_WEIGHTS), new Uint8Array(weights));
  };
const textOf = (entry: { readonly graph: Uint8Array } | undefined): string | undefined =>
  entry && Buffer.from(entry.graph).toString();

describe('entries', () => {
  it('are found once they are made, with or without a file of weights', async () => {
    const cache = newCache();
    expect(await findEntry(cache, keyOf('a'))).toBeUndefined();
    await addEntry(cache, keyOf('a'), fill('graph'));
    await addEntry(cache, keyOf('b'), fill('small', 0));
    expect(textOf(await findEntry(cache, keyOf('a')))).toBe('graph');
    expect(textOf(await findEntry(cache, keyOf('b')))).toBe('small');
    expect(readdirSync(cache.folder).toSorted()).toEqual([keyOf('a'), keyOf('b')]);
  });

  it('are on disk before they get their name', async () => {
    vi.clearAllMocks();
    await addEntry(newCache(), keyOf('a'), fill('graph'));
    const synced = vi.mocked(files.syncFile).mock;
    expect(synced.calls.map(([path]) => basename(path)).toSorted()).toEqual([
      PREPARED_GRAPH,
      PREPARED_WEIGHTS,
    ]);
    const [renamed] = vi.mocked(files.publish).mock.invocationCallOrder;
    for (const order of synced.invocationCallOrder) expect(order).toBeLessThan(renamed!);
  });

  it.skipIf(process.platform === 'win32')('are the user’s own', async () => {
    const cache = newCache();
    const entry = await addEntry(cache, keyOf('a'), fill('graph'));
    expect(statSync(cache.folder).mode & 0o777).toBe(0o700);
    expect(statSync(entry.folder).mode & 0o777).toBe(0o700);
  });

  it('leave nothing behind if they cannot be made', async () => {
    const cache = newCache();
    const failing = addEntry(cache, keyOf('a'), async (folder) => {
      await fill('graph')(folder);
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    expect(readdirSync(cache.folder)).toEqual([]);
  });

  it('say why a model cannot be prepared, without its files', async () => {
    const cache = newCache();
    const refusing = async (folder: string): Promise<string> => {
      await fill('graph')(folder);
      return 'no use';
    };
    expect(await addEntry(cache, keyOf('a'), refusing)).toMatchObject({ refused: 'no use' });
    const entry = await findEntry(cache, keyOf('a'));
    expect([entry?.refused, entry?.graph.byteLength]).toEqual(['no use', 0]);
    expect(readdirSync(entry!.folder)).toEqual(['entry.json']);
  });

  it('are one, if several are made at once; the first stays', async () => {
    const cache = newCache();
    const made = await Promise.all(
      ['1', '2', '3', '4'].map((text) => addEntry(cache, keyOf('a'), fill(text))),
    );
    expect(new Set(made.map(textOf)).size).toBe(1);
    expect(readdirSync(cache.folder)).toEqual([keyOf('a')]);
  });
});

describe('damaged entries', () => {
  const damages: readonly [string, (place: string) => void][] = [
    ['a shorter file of weights', (place) => truncateSync(join(place, PREPARED_WEIGHTS), 50)],
    ['another graph of the same size', (place) => writeFileSync(join(place, PREPARED_GRAPH), 'grapH')],
    ['a record cut off', (place) => truncateSync(join(place, 'entry.json'), 10)],
    ['a record of something else', (place) => writeFileSync(join(place, 'entry.json'), 'null')],
  ];
  it.each(damages)('%s: not found, and made again', async (_, damage) => {
    const cache = newCache();
    const entry = await addEntry(cache, keyOf('a'), fill('graph'));
    expect(await isWhole(entry)).toBe(true);
    damage(entry.folder);
    expect(await isWhole(entry)).toBe(false);
    expect(await findEntry(cache, keyOf('a'))).toBeUndefined();
    expect(textOf(await addEntry(cache, keyOf('a'), fill('other')))).toBe('other');
    expect(readdirSync(cache.folder)).toEqual([keyOf('a')]);
  });

  it('are those that are links: replaced, their target untouched', async () => {
    const [cache, other] = [newCache(), newCache()];
    const theirs = await addEntry(other, keyOf('a'), fill('theirs'));
    mkdirSync(cache.folder);
    symlinkSync(theirs.folder, join(cache.folder, keyOf('a')), 'junction');
    expect(await findEntry(cache, keyOf('a'))).toBeUndefined();
    expect(textOf(await addEntry(cache, keyOf('a'), fill('ours')))).toBe('ours');
    expect(textOf(await findEntry(other, keyOf('a')))).toBe('theirs');
  });

  it('are those with a link for a file', async () => {
    const cache = newCache();
    const entry = await addEntry(cache, keyOf('a'), fill('graph', 0));
    const elsewhere = join(scratch, 'empty');
    writeFileSync(elsewhere, '');
    symlinkSync(elsewhere, join(entry.folder, PREPARED_WEIGHTS));
    expect(await findEntry(cache, keyOf('a'))).toBeUndefined();
  });
});

describe('the limit', () => {
  const age = (folder: string, key: string, seconds: number): void => {
    const then = Date.now() / 1000 - seconds;
    utimesSync(join(folder, key, 'entry.json'), then, then);
  };

  it('takes away what was not used for longest; being found is use', async () => {
    const cache = newCache(350);
    for (const digit of ['a', 'b', 'c']) await addEntry(cache, keyOf(digit), fill(digit));
    age(cache.folder, keyOf('a'), 300);
    age(cache.folder, keyOf('b'), 200);
    age(cache.folder, keyOf('c'), 100);
    await findEntry(cache, keyOf('a'));
    await addEntry(cache, keyOf('d'), fill('d'));
    expect(readdirSync(cache.folder).toSorted()).toEqual([keyOf('a'), keyOf('c'), keyOf('d')]);
  });

  it('spares the entry that was just made, and folders that are none of ours', async () => {
    const cache = newCache(0);
    mkdirSync(join(cache.folder, 'photos'), { recursive: true });
    await addEntry(cache, keyOf('a'), fill('a'));
    await addEntry(cache, keyOf('b'), fill('b'));
    expect(readdirSync(cache.folder).toSorted()).toEqual([keyOf('b'), 'photos']);
  });

  it('takes away what killed processes left an hour ago', async () => {
    const cache = newCache();
    const [old, young] = [join(cache.folder, '.new-1-aa'), join(cache.folder, '.new-2-bb')];
    for (const folder of [old, young]) mkdirSync(folder, { recursive: true });
    utimesSync(old, Date.now() / 1000 - 7200, Date.now() / 1000 - 7200);
    await addEntry(cache, keyOf('a'), fill('a'));
    expect([existsSync(old), existsSync(young)]).toEqual([false, true]);
  });
});

describe('a cache that cannot be written', () => {
  it('throws the system’s reason', async () => {
    const file = join(scratch, 'file');
    writeFileSync(file, '');
    const cache = { folder: join(file, 'cache'), limitBytes: 0 };
    expect(await findEntry(cache, keyOf('a'))).toBeUndefined();
    await expect(addEntry(cache, keyOf('a'), fill('a'))).rejects.toThrow(/ENOTDIR|EEXIST|ENOENT/);
    expect(readFileSync(file, 'utf8')).toBe('');
  });
});
