/** Search against a brute-force comparison of all rows in double precision. */
import { openDataset, type Dataset } from 'onnx-tapir';
import { searchDataset, type Metric } from 'onnx-tapir/features';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../../src/base/random.js';
import { storeDataset } from '../../../support/stored-dataset.js';

const METRICS: readonly Metric[] = ['cosine', 'dot', 'l2'];

/** A dataset. */
interface Shape {
  readonly rows: readonly (readonly number[])[];
  readonly shard?: number;
  /** Rows that no input refers to. */
  readonly dead?: ReadonlySet<number>;
  readonly dims?: readonly number[];
}

function createDataset({ rows, shard, dead = new Set(), dims }: Shape): Dataset {
  // Backwards: the order of inputs is not that of rows.
  const inputs = rows.map((_, row) => ({ path: `image-${row}`, row })).toReversed();
  const live = inputs.filter(({ row }) => !dead.has(row));
  return storeDataset(
    {
      key: 'embedding',
      rows,
      ...(shard === undefined ? {} : { shard }),
      ...(dims === undefined ? {} : { dims }),
      inputs: [{ path: 'broken' }, ...live],
    },
    openDataset,
  );
}

/** All rows by their scores; equal scores by row. Rows with a NaN are left out. */
function bruteForce(
  { rows, dead }: Shape,
  query: readonly number[],
  metric: Metric,
  own: number | null = null,
) {
  const q = Float32Array.from(query);
  const scored = rows.flatMap((given, row) => {
    const x = Float32Array.from(given);
    let dot = 0;
    let xx = 0;
    let qq = 0;
    let dd = 0;
    for (let i = 0; i < q.length; i++) {
      dot += x[i]! * q[i]!;
      xx += x[i]! ** 2;
      qq += q[i]! ** 2;
      dd += (x[i]! - q[i]!) ** 2;
    }
    const cosine =
      xx === 0 || qq === 0 ? 0 : Math.max(-1, Math.min(1, dot / (Math.sqrt(xx) * Math.sqrt(qq))));
    const score = { cosine, dot, l2: Math.sqrt(dd) }[metric];
    return Number.isNaN(score) || dead?.has(row) || row === own ? [] : [{ row, score }];
  });
  const sign = metric === 'l2' ? 1 : -1;
  return scored.toSorted((a, b) => sign * (a.score - b.score) || a.row - b.row);
}

async function expectExact(
  shape: Shape,
  queries: readonly (readonly number[])[],
  metric: Metric,
  top: number,
  exclude: readonly (number | null)[] = [],
): Promise<void> {
  const found = await searchDataset(createDataset(shape), queries, { metric, top, exclude });
  expect(found.length).toBe(queries.length);
  for (const [q, hits] of found.entries()) {
    const expected = bruteForce(shape, queries[q]!, metric, exclude[q] ?? null).slice(0, top);
    expect(hits.map(({ row }) => row)).toEqual(expected.map(({ row }) => row));
    expect(hits.map(({ rank }) => rank)).toEqual(expected.map((_, i) => i + 1));
    expect(hits.map(({ path }) => path)).toEqual(expected.map(({ row }) => `image-${row}`));
    for (const [i, { score }] of hits.entries()) expect(score).toBeCloseTo(expected[i]!.score, 9);
  }
}

describe('searchDataset', () => {
  it.each(METRICS)('finds what brute force finds, by %s: ties, shards, dead rows', async (metric) => {
    const random = createRandom(1);
    for (const { count, elements, shard } of [
      { count: 1, elements: 1, shard: 1 },
      { count: 211, elements: 5, shard: 50 },
      { count: 300, elements: 64, shard: 300 },
      { count: 97, elements: 333, shard: 31 },
    ]) {
      const rows = Array.from({ length: count }, () =>
        Array.from({ length: elements }, () => random() - 0.5),
      );
      // Copies, in other shards too, and rows of zeros.
      for (let i = 3; i < count; i += 3) rows[i] = rows[(i * 7) % i]!;
      for (let i = 20; i < count; i += 41) rows[i] = rows[i]!.map(() => 0);
      const dead = new Set(rows.flatMap((_, i) => (count > 1 && i % 10 === 4 ? [i] : [])));
      const queries = [rows[0]!, rows.at(-1)!, rows[0]!.map(() => random() - 0.5), rows[0]!.map(() => 0)];
      const shape = { rows, shard, dead };
      await expectExact(shape, queries, metric, 10);
      await expectExact(shape, queries, metric, 1);
      // More than there are.
      await expectExact(shape, queries, metric, count + 5);
      await expectExact(shape, queries, metric, 10, [0, count - 1, null, null]);
    }
  });

  it('leaves several rows out of the results of a query', async () => {
    const dataset = createDataset({
      rows: [
        [1, 0],
        [1, 0.1],
        [1, 0.2],
        [0, 1],
      ],
    });
    const found = await searchDataset(
      dataset,
      [
        [1, 0],
        [1, 0],
      ],
      { exclude: [[0, 1], 2], top: 2 },
    );
    expect(found.map((hits) => hits.map(({ row }) => row))).toEqual([
      [2, 3],
      [0, 1],
    ]);
  });

  it.each(METRICS)('is exact where float32 is not, by %s', async (metric) => {
    const random = createRandom(2);
    const base = Array.from({ length: 256 }, () => random() + 1);
    // Neighbours that differ in the seventh digit: scores in float32 would order them by chance.
    const rows = Array.from({ length: 400 }, () =>
      base.map((value) => value * (1 + (random() - 0.5) * 4e-7)),
    );
    await expectExact({ rows }, [base, rows[7]!], metric, 20);
  });

  it.each(METRICS)('bears huge and tiny numbers, by %s', async (metric) => {
    const random = createRandom(3);
    const scales = [1e38, 1e20, 1, 1e-20, 1e-38, 1e-44];
    const rows = Array.from({ length: 120 }, (_, i) =>
      Array.from({ length: 16 }, () => (random() - 0.5) * scales[i % scales.length]!),
    );
    for (const query of [rows[0]!, rows[2]!, rows[3]!, rows[5]!]) {
      const hits = (await searchDataset(createDataset({ rows }), [query], { metric, top: 30 }))[0]!;
      const expected = bruteForce({ rows }, query, metric).slice(0, 30);
      expect(hits.map(({ row }) => row)).toEqual(expected.map(({ row }) => row));
    }
  });

  it('gives a vector of zeros cosine 0, and leaves out rows with a NaN', async () => {
    const rows = [
      [0, 0],
      [NaN, 1],
      [-1, 0],
      [Infinity, 0],
      [1, 1],
    ];
    const [hits, zero] = await searchDataset(createDataset({ rows }), [
      [1, 0],
      [0, 0],
    ]);
    expect(hits!.map(({ row, score }) => [row, Number(score.toFixed(6))])).toEqual([
      [4, 0.707107],
      [0, 0],
      [2, -1],
    ]);
    expect(zero!.map(({ score }) => score)).toEqual([0, 0, 0]);
  });

  it('takes rows of several axes', async () => {
    const rows = [
      [1, 2, 3, 4],
      [4, 3, 2, 1],
    ];
    const [hits] = await searchDataset(createDataset({ rows, dims: [2, 2] }), [[4, 3, 2, 1]], {
      key: 'embedding',
    });
    expect(hits!.map(({ row }) => row)).toEqual([1, 0]);
  });

  it('finds nothing in an empty dataset, and answers nothing for no query', async () => {
    expect(await searchDataset(createDataset({ rows: [] }), [[1, 2, 3]])).toEqual([[]]);
    expect(await searchDataset(createDataset({ rows: [[1, 2, 3]] }), [])).toEqual([]);
  });

  it('stops when its signal fires', async () => {
    const abort = new AbortController();
    abort.abort(new Error('enough'));
    const dataset = createDataset({ rows: [[1, 2]] });
    await expect(searchDataset(dataset, [[1, 2]], { signal: abort.signal })).rejects.toThrow('enough');
  });

  it.each([
    ['vectors', [[1]], {}],
    ['vectors', [[1, NaN]], {}],
    ['vectors', ['text'], {}],
    ['vectors', 'text', {}],
    ['vectors', Array.from({ length: 1025 }, () => [1, 2]), {}],
    ['top', [[1, 2]], { top: 0 }],
    ['metric', [[1, 2]], { metric: 'manhattan' }],
    ['key', [[1, 2]], { key: 'nothing' }],
    ['exclude', [[1, 2]], { exclude: [1, 2] }],
    ['exclude', [[1, 2]], { exclude: ['a'] }],
    ['exclude', [[1, 2]], { exclude: [[0, 0.5]] }],
    ['device', [[1, 2]], { device: 'gpu' }],
    ['more', [[1, 2]], { more: 1 }],
  ])('refuses a bad "%s"', async (option, vectors, options) => {
    const searching = searchDataset(createDataset({ rows: [[1, 2]] }), vectors as never, options as never);
    await expect(searching).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await expect(searching).rejects.toThrow(option);
  });
});
