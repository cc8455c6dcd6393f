/** Planted duplicates against a brute force in double precision. */
import { describe, expect, it } from 'vitest';
import { isTapirError, openDataset, type Dataset } from 'onnx-tapir';
import { findDuplicates } from 'onnx-tapir/features';
import { storeDataset } from '../../../support/stored-dataset.js';
import { rounds } from '../../../support/rounds.js';

interface Shape {
  readonly rows: readonly Float32Array[];
  /** Rows per shard. */
  readonly shard?: number;
  readonly dead?: ReadonlySet<number>;
  /** Width and bytes of images; 1 pixel of unknown bytes by default. */
  readonly sizes?: ReadonlyMap<number, readonly [width: number, bytes: number]>;
}

function createDataset({ rows, shard, dead = new Set(), sizes = new Map() }: Shape): Dataset {
  const inputs = rows.flatMap((_, row) => {
    const [width, sizeBytes] = sizes.get(row) ?? [1, null];
    return dead.has(row) ? [] : [{ path: `image-${row}`, row, width, sizeBytes }];
  });
  const shape = { key: 'embedding', rows, inputs, ...(shard === undefined ? {} : { shard }) };
  return storeDataset(shape, openDataset);
}

/** Numbers in [-1, 1), the same on every run (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 31 - 1;
  };
}

/** Random rows; every `every`-th is a noisy, scaled copy of an earlier one. */
function plant(count: number, elements: number, every: number, noise: number): Float32Array[] {
  const random = createRandom(count);
  const rows: Float32Array[] = [];
  for (let row = 0; row < count; row++) {
    const source = row % every === every - 1 ? rows[Math.floor(((random() + 1) / 2) * row)] : undefined;
    const scale = 1.5 + random();
    rows.push(
      Float32Array.from({ length: elements }, (_, i) =>
        source ? scale * (source[i]! + noise * random()) : random(),
      ),
    );
  }
  return rows;
}

function cosineOf(a: Float32Array, b: Float32Array): number {
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    ab += a[i]! * b[i]!;
    aa += a[i]! ** 2;
    bb += b[i]! ** 2;
  }
  return ab / Math.sqrt(aa * bb);
}

/** Connected rows by comparing every pair, each group in order. */
function bruteForce(rows: readonly Float32Array[], cosine: number): number[][] {
  const group = rows.map((_, row) => row);
  for (let a = 0; a < rows.length; a++)
    for (let b = a + 1; b < rows.length; b++) {
      if (cosineOf(rows[a]!, rows[b]!) < cosine || group[a] === group[b]) continue;
      const [from, to] = [Math.max(group[a]!, group[b]!), Math.min(group[a]!, group[b]!)];
      for (let i = 0; i < group.length; i++) if (group[i] === from) group[i] = to;
    }
  const members = new Map<number, number[]>();
  for (const [row, first] of group.entries()) members.set(first, [...(members.get(first) ?? []), row]);
  return [...members.values()].filter(({ length }) => length > 1);
}

async function findRows(dataset: Dataset, cosine: number): Promise<number[][]> {
  const { groups } = await findDuplicates(dataset, { cosine });
  return groups.map(({ best, copies }) =>
    [best.row, ...copies.map(({ row }) => row)].toSorted((a, b) => a - b),
  );
}

describe('findDuplicates', () => {
  it.each([2000, 300])('finds planted duplicates exactly, in shards of %i rows', async (shard) => {
    const rows = plant(2000, 24, 10, 0.35);
    const expected = bruteForce(rows, 0.95);
    // The noise straddles the threshold: some copies are in, others are not.
    const copies = expected.reduce((sum, { length }) => sum + length - 1, 0);
    expect(copies).toBeGreaterThan(20);
    expect(copies).toBeLessThan(200);
    expect(await findRows(createDataset({ rows, shard }), 0.95)).toEqual(expected);
  });

  it('decides pairs at the threshold in double precision', async () => {
    const rows = plant(400, 16, 4, 0.4);
    const near: number[] = [];
    for (const [a, left] of rows.entries())
      for (const right of rows.slice(a + 1)) near.push(cosineOf(left, right));
    for (const cosine of near.filter((value) => value > 0.9 && value <= 1).slice(0, rounds(2, 5))) {
      expect(await findRows(createDataset({ rows }), cosine)).toEqual(bruteForce(rows, cosine));
      const above = cosine + 2 ** -50;
      expect(await findRows(createDataset({ rows }), above)).toEqual(bruteForce(rows, above));
    }
  });

  // More rows than are multiplied at once.
  const count = rounds(10_000, 20_000);
  it(`finds all planted duplicates of ${count} rows, and invents none`, async () => {
    const rows = plant(count, 448, 100, 0.01);
    const sources = rows.length / 100;
    const { groups, compared } = await findDuplicates(createDataset({ rows }), { cosine: 0.97 });
    expect(compared).toBe(count);
    // A copy's source is a random earlier row, so each copy adds exactly one row to a group.
    expect(groups.reduce((sum, { copies }) => sum + copies.length, 0)).toBe(sources);
    for (const { best, copies } of groups)
      for (const { row, cosine } of copies) expect(cosine).toBe(cosineOf(rows[best.row]!, rows[row]!));
    const members = new Set<number>();
    for (const { best, copies } of groups) for (const { row } of [best, ...copies]) members.add(row);
    for (let row = 99; row < rows.length; row += 100) expect(members.has(row)).toBe(true);
  }, 120_000);

  it('gives equal rows a cosine of exactly 1', async () => {
    const row = Float32Array.from([0.1, 0.7, -0.3]);
    const { groups } = await findDuplicates(createDataset({ rows: [row, row.slice()] }), { cosine: 1 });
    expect(groups).toMatchObject([{ best: { row: 0 }, copies: [{ row: 1, cosine: 1 }] }]);
  });

  it('names the copy with most pixels, then most bytes, then the first', async () => {
    const row = Float32Array.from([1, 2, 3]);
    const rows = [row, row, row, row];
    const best = async (sizes: NonNullable<Shape['sizes']>): Promise<number> =>
      (await findDuplicates(createDataset({ rows, sizes }))).groups[0]!.best.row;
    expect(await best(new Map())).toBe(0);
    expect(await best(new Map([[1, [1, 50]], [2, [1, 60]]]))).toBe(2); // prettier-ignore
    expect(await best(new Map([[1, [1, 90]], [3, [2, 10]]]))).toBe(3); // prettier-ignore
  });

  it('joins a chain, and reports the cosine with the best copy', async () => {
    const at = (angle: number): Float32Array => Float32Array.from([Math.cos(angle), Math.sin(angle), 0]);
    const { groups } = await findDuplicates(createDataset({ rows: [at(0), at(0.2), at(0.4)] }));
    expect(groups).toHaveLength(1);
    expect(groups[0]!.copies.map(({ cosine }) => cosine)).toEqual([
      expect.closeTo(Math.cos(0.2), 6),
      expect.closeTo(Math.cos(0.4), 6),
    ]);
  });

  it('leaves out and counts rows without a direction, and leaves out outdated rows', async () => {
    const one = Float32Array.from([1, 2, 3]);
    const zero = new Float32Array(3);
    const rows = [one, zero, Float32Array.from([NaN, 1, 1]), zero, Float32Array.from([Infinity, 1, 1]), one];
    const found = await findDuplicates(createDataset({ rows, dead: new Set([5]) }));
    expect(found).toMatchObject({ groups: [], compared: 1, skipped: { zero: 2, notFinite: 2 } });
  });

  it('takes an empty dataset', async () => {
    expect(await findDuplicates(createDataset({ rows: [] }))).toMatchObject({ groups: [], compared: 0 });
  });

  it('refuses a threshold that is no cosine, and stops', async () => {
    const dataset = createDataset({ rows: plant(50, 3, 5, 0.1) });
    await expect(findDuplicates(dataset, { onProgress: 7 as never })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'onProgress' },
    });
    for (const cosine of [0, 1.01, NaN, '0.9'])
      await expect(findDuplicates(dataset, { cosine: cosine as number })).rejects.toSatisfy((error) =>
        isTapirError(error, 'OPTION_INVALID'),
      );
    const reason = new Error('enough');
    await expect(findDuplicates(dataset, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});
