/** The measures, against values that are computed in the plainest way. */
import { describe, expect, it } from 'vitest';
import {
  OutputComparer,
  type Agreement,
} from '../../../../src/products/precision/compare/compare-outputs.js';
import { createRandom } from '../../../../src/base/random.js';
import { makeTensor, type Tensor } from '../../../../src/onnx/tensor/tensor.js';

const breathe = (): Promise<void> => Promise.resolve();
const random = createRandom(3);
const tensor = (values: readonly number[], dims = [values.length]): Tensor =>
  makeTensor('float32', dims, Float32Array.from(values));
const vectors = (count: number, length: number): number[][] =>
  Array.from({ length: count }, () => Array.from({ length }, () => random() - 0.5));

function compare(a: readonly number[][], b: readonly number[][], neighbours = 10) {
  const comparer = new OutputComparer();
  a.forEach((row, i) => comparer.add(i, `${i}.jpg`, tensor(row), tensor(b[i]!)));
  return comparer.finish(neighbours, breathe);
}

function cosine(a: readonly number[], b: readonly number[]): number {
  const [x, y] = [a, b].map((row) => row.map(Math.fround)) as [number[], number[]];
  const dot = (p: readonly number[], q: readonly number[]): number =>
    p.reduce((sum, v, i) => sum + v * q[i]!, 0);
  return dot(x, y) / Math.sqrt(dot(x, x) * dot(y, y));
}

/** The nearest rows of a row, by a full sort. */
function nearest(rows: readonly number[][], row: number, count: number): number[] {
  return rows
    .map((other, at) => ({ at, cosine: cosine(rows[row]!, other) }))
    .filter(({ at }) => at !== row)
    .sort((p, q) => q.cosine - p.cosine)
    .slice(0, count)
    .map(({ at }) => at);
}

describe('OutputComparer', () => {
  it('counts cosines in steps, and how often the highest score is at the same class', async () => {
    const scores = vectors(40, 5);
    const others = scores.map((row, i) => (i % 4 === 0 ? row.toReversed() : row));
    const comparer = new OutputComparer(5);
    scores.forEach((row, i) => comparer.add(i, null, tensor(row), tensor(others[i]!)));
    const { top1, cosines, cosine: figures } = await comparer.finish(5, breathe);
    const top = (row: readonly number[]): number => row.indexOf(Math.max(...row));
    expect(top1).toBe(scores.filter((row, i) => top(row) === top(others[i]!)).length / 40);
    expect(cosines!.counts.reduce((sum, count) => sum + count, 0)).toBe(40);
    expect(cosines!.min).toBe(figures!.least);
    expect(cosines!.counts.at(-1)).toBeGreaterThanOrEqual(30);
    // Five elements are no scores where nothing says so.
    expect(await compare(scores, others)).toMatchObject({ top1: null });
  });

  const a = vectors(60, 24);
  const b = a.map((row) => row.map((value) => value + (random() - 0.5) * 0.5));

  it('gives the mean and least cosine, the worst images and the recall', async () => {
    const found = await compare(a, b);
    const cosines = a.map((row, i) => cosine(row, b[i]!));
    expect(found).toMatchObject({ images: 60, identical: 0, notFinite: 0 });
    expect(found.cosine!.mean).toBeCloseTo(cosines.reduce((sum, one) => sum + one) / 60, 9);
    expect(found.cosine!.least).toBeCloseTo(Math.min(...cosines), 9);
    const order = cosines.map((_, i) => i).sort((p, q) => cosines[p]! - cosines[q]!);
    expect(found.worst.map(({ index }) => index)).toEqual(order.slice(0, 10));
    expect(found.worst[0]!.path).toBe(`${order[0]!}.jpg`);
    const shares = a.map((_, i) => {
      const ofB = new Set(nearest(b, i, 10));
      return nearest(a, i, 10).filter((at) => ofB.has(at)).length / 10;
    });
    expect(found.recall!.neighbours).toBe(10);
    expect(found.recall!.mean).toBeCloseTo(shares.reduce((sum, one) => sum + one) / 60, 9);
    expect(found.recall!.mean).toBeLessThan(0.95);
    const differences = a.flatMap((row, i) =>
      row.map((v, c) => Math.abs(Math.fround(v) - Math.fround(b[i]![c]!))),
    );
    expect(found.maxDifference).toBeCloseTo(Math.max(...differences), 12);
  });

  it('is exact for equal vectors', async () => {
    expect(await compare(a, a)).toMatchObject({
      identical: 60,
      maxDifference: 0,
      cosine: { mean: 1, least: 1 },
      recall: { mean: 1 },
    });
  });

  it('counts zero, infinite and NaN vectors as what they are', async () => {
    const found = await compare(
      [
        [0, 0],
        [0, 0],
        [1, 0],
        [NaN, 1],
        [1, 2],
      ],
      [
        [0, 0],
        [1, 0],
        [0, 0],
        [1, 1],
        [Infinity, 0],
      ],
    );
    expect(found).toMatchObject({ images: 3, notFinite: 2, identical: 1, cosine: { mean: 1 / 3, least: 0 } });
    expect((await compare([[NaN]], [[1]])).cosine).toBeNull();
  });

  it('compares only neighbours if the lengths differ', async () => {
    const found = await compare(
      a,
      a.map((row) => [...row, 0]),
    );
    expect(found).toMatchObject({ cosine: null, maxDifference: null, worst: [], recall: { mean: 1 } });
  });

  it('gives no cosine of maps in other layouts, and one of a map that is flat in one model', async () => {
    const maps = (dims: number[]): Promise<Agreement> => {
      const comparer = new OutputComparer();
      a.forEach((row, i) => comparer.add(i, null, tensor(row, [4, 2, 3]), tensor(row, dims)));
      return comparer.finish(10, breathe);
    };
    expect(await maps([2, 3, 4])).toMatchObject({
      cosine: null,
      maxDifference: null,
      identical: 0,
      worst: [],
    });
    for (const dims of [[4, 2, 3], [1, 4, 2, 3], [24], [24, 1, 1]])
      expect(await maps(dims)).toMatchObject({ cosine: { least: 1 }, identical: a.length });
  });

  it('gives no recall of single numbers, which all point the same way', async () => {
    const [numbers, others] = [a, b].map((rows) => rows.map(([one]) => [one!]));
    const found = await compare(numbers!, others!);
    expect(found).toMatchObject({ images: a.length, recall: null });
    expect(found.cosine).not.toBeNull();
  });

  it('gives no recall where every image is a neighbour', async () => {
    expect((await compare(a.slice(0, 11), b.slice(0, 11))).recall).toBeNull();
    expect((await compare(a.slice(0, 12), b.slice(0, 12))).recall).not.toBeNull();
  });

  it('averages maps over space for the neighbours', async () => {
    const maps = new OutputComparer();
    a.forEach((row, i) => {
      const map = tensor(
        row.flatMap((v) => [v - 1, v + 1]),
        [24, 1, 2],
      );
      const turned = tensor(
        row.flatMap((v) => [v + 1, v - 1]),
        [24, 1, 2],
      );
      maps.add(i, null, map, turned);
    });
    const found = await maps.finish(10, breathe);
    expect(found.cosine!.mean).toBeLessThan(0);
    expect(found.recall!.mean).toBeGreaterThan(0.99);
  });
});
