/** The names of inputs, and the shards that they belong to. */
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  belongsTo,
  checkShard,
  nameItems,
  shardOf,
  takeShare,
} from '../../../src/datasets/records/input-names.js';

const items = ['a.jpg', null, 'b/c.jpg', null, 'a.jpg'].map((path, number) => ({ path, number }));
async function* source() {
  yield* items;
}
async function collect<Item>(given: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of given) all.push(item);
  return all;
}

describe('shardOf', () => {
  it('is the SHA-256 of the name modulo the count', () => {
    for (const name of ['', 'a.jpg', 'sea/sea-0.jpg', 'späte Träume/№ 7.png']) {
      const number = BigInt(`0x${createHash('sha256').update(name).digest('hex')}`);
      for (const count of [1, 2, 3, 7, 8, 1000, 99_991, 100_000])
        expect(shardOf(name, count), `${name} of ${count}`).toBe(Number(number % BigInt(count)));
    }
  });

  it('is balanced', () => {
    const shards = Array.from({ length: 8 }, () => 0);
    for (let i = 0; i < 8000; i++) shards[shardOf(`folder/image-${i}.jpg`, 8)]!++;
    // Four standard deviations: 4 · √(1000 · 7/8).
    for (const inputs of shards) expect(Math.abs(inputs - 1000)).toBeLessThan(119);
  });
});

describe('names', () => {
  it('are paths, or positions in the source', async () => {
    const named = await collect(nameItems(source()));
    expect(named.map(({ path }) => path)).toEqual(['a.jpg', '#1', 'b/c.jpg', '#3', 'a.jpg']);
    expect(named.map(({ number }) => number)).toEqual([0, 1, 2, 3, 4]);
    expect(await collect(nameItems(items))).toEqual(named);
  });

  it('are the same in a share, and shares have each input once', async () => {
    const whole = await collect(nameItems(source()));
    for (const count of [1, 2, 3, 7]) {
      const shares = await Promise.all(
        Array.from({ length: count }, (_, index) => collect(takeShare(source(), { index, count }))),
      );
      const all = shares.flat().toSorted((a, b) => a.number - b.number);
      expect(all).toEqual(whole);
      for (const [index, share] of shares.entries())
        for (const { number } of share)
          expect(belongsTo({ index, count }, items[number]!.path, number)).toBe(true);
    }
  });
});

describe('checkShard', () => {
  it.each([
    {},
    { index: 0 },
    { index: 2, count: 2 },
    { index: 0, count: 100_001 },
    { index: 0, count: 1, x: 1 },
    'x',
  ])('refuses %j', (given) => {
    const check = () => checkShard('shard', given as never);
    expect(check).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });
});
