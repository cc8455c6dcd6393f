/** Distances, neighbours and groups against the plain definitions. */
import { describe, expect, it } from 'vitest';
import { cosineDistances, type Distances } from '../../../../src/onnx/tensor/vectors/cosine.js';
import { spanForest, suggestDistance } from '../../../../src/onnx/tensor/vectors/duplicates.js';
import { findNeighbours } from '../../../../src/onnx/tensor/vectors/neighbours.js';
import { groupsWithin } from '../../../../src/products/pages/report/page/groups.js';
import { createRandom } from '../../../../src/base/random.js';
import { projectToUmap } from '../../../../src/products/pages/report/collect/umap.js';

const breathe = (): Promise<void> => Promise.resolve();

function randomRows(rows: number, columns: number, seed: number): number[][] {
  const random = createRandom(seed);
  return Array.from({ length: rows }, () =>
    Array.from({ length: columns }, () => Math.fround(random() - 0.4)),
  );
}

function distancesOf(rows: readonly (readonly number[])[]): Promise<Distances> {
  const data = Float32Array.from(rows.flat());
  return cosineDistances({ rows: rows.length, columns: rows[0]!.length, data }, breathe);
}

function directDistance(a: readonly number[], b: readonly number[]): number {
  const dot = a.reduce((sum, value, i) => sum + value * b[i]!, 0);
  return 1 - dot / (Math.hypot(...a) * Math.hypot(...b));
}

describe('cosineDistances', () => {
  it.each([1, 2, 3, 5, 31, 32, 33, 70])('compares %i rows with each other', async (count) => {
    const rows = randomRows(count, 9, count);
    const { data } = await distancesOf(rows);
    for (let i = 0; i < count; i++)
      for (let j = 0; j < count; j++)
        expect(data[i * count + j], `${i}, ${j}`).toBeCloseTo(
          i === j ? 0 : directDistance(rows[i]!, rows[j]!),
          6,
        );
  });

  it('keeps the digits of tiny distances', async () => {
    const { data } = await distancesOf([
      [1, 0],
      [1, 1e-5],
    ]);
    expect(data[1]! / 5e-11).toBeCloseTo(1, 3);
  });

  it('has a rule for vectors without direction', async () => {
    const { data } = await distancesOf([
      [0, 0],
      [0, 0],
      [1, 0],
      [-1, 0],
    ]);
    expect([...data]).toEqual([0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 2, 1, 1, 2, 0]);
  });
});

describe('findNeighbours', () => {
  it('finds the nearest of all, the nearest first', async () => {
    const rows = randomRows(40, 5, 3);
    const { count, indices, distances } = findNeighbours(await distancesOf(rows), 8);
    expect(count).toBe(8);
    rows.forEach((row, i) => {
      const expected = rows
        .map((other, j) => ({ j, distance: directDistance(row, other) }))
        .filter(({ j }) => j !== i)
        .toSorted((a, b) => a.distance - b.distance)
        .slice(0, 8);
      expect([...indices.subarray(i * 8, i * 8 + 8)]).toEqual(expected.map(({ j }) => j));
      expected.forEach(({ distance }, k) => expect(distances[i * 8 + k]).toBeCloseTo(distance, 6));
    });
  });

  it('takes the earlier of equally near rows, and has fewer than asked for among few', async () => {
    const { count, indices } = findNeighbours(await distancesOf([[1], [2], [3], [4]]), 8);
    expect(count).toBe(3);
    expect([...indices]).toEqual([1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2]);
    expect(findNeighbours(await distancesOf([[1]]), 8).count).toBe(0);
  });
});

/** Connected groups by search along all near pairs. */
function directGroups({ rows, data }: Distances, limit: number): number[][] {
  const seen = new Set<number>();
  const groups: number[][] = [];
  for (let start = 0; start < rows; start++) {
    if (seen.has(start)) continue;
    const group = [start];
    seen.add(start);
    for (const row of group) {
      for (let other = 0; other < rows; other++) {
        if (seen.has(other) || data[row * rows + other]! > limit) continue;
        seen.add(other);
        group.push(other);
      }
    }
    if (group.length > 1) groups.push(group.toSorted((a, b) => a - b));
  }
  return groups.toSorted((a, b) => b.length - a.length || a[0]! - b[0]!);
}

describe('groups of near-duplicates', () => {
  it.each([0, 0.001, 0.02, 0.1, 0.3, 2])('are those that pairs within %f connect', async (limit) => {
    const rows = randomRows(60, 4, 5);
    // Copies, one scaled: the same direction.
    const all = [...rows, rows[7]!, rows[7]!.map((value) => value * 4), rows[9]!];
    const distances = await distancesOf(all);
    const { pairs, distances: lengths } = spanForest(distances);
    expect(pairs.length).toBe(2 * (all.length - 1));
    expect([...lengths]).toEqual([...lengths].toSorted((a, b) => a - b));
    const groups = groupsWithin(pairs, lengths, all.length, limit);
    expect(groups).toEqual(directGroups(distances, limit));
    if (limit === 0.001) expect(groups).toContainEqual([7, 60, 61]);
  });

  it('exist for one row and none', async () => {
    expect(groupsWithin(...forestOf(await distancesOf([[1]])), 1, 2)).toEqual([]);
  });

  it('begin at a distance that fits the features', async () => {
    // Nearly the same direction throughout: 0.02 would put all into one group.
    const near = await distancesOf(randomRows(50, 6, 8).map((row) => row.map((value) => 100 + value)));
    const median = [...near.data].toSorted((a, b) => a - b)[50 + (50 * 49) / 2]!;
    expect(suggestDistance(near)).toBeCloseTo(median / 20, 8);
    expect(suggestDistance(await distancesOf(randomRows(50, 6, 8)))).toBe(0.02);
  });
});

function forestOf(distances: Distances): [Uint16Array, Float32Array] {
  const { pairs, distances: lengths } = spanForest(distances);
  return [pairs, lengths];
}

describe('projectToUmap', () => {
  const random = createRandom(4);
  const rows = Array.from({ length: 45 }, (_, i) =>
    Array.from({ length: 6 }, (__, j) => (j === i % 3 ? 5 : 0) + random()),
  );
  const start = Float64Array.from({ length: 90 }, () => random());

  it('keeps what is alike together, and is the same every time', async () => {
    const distances = await distancesOf(rows);
    const points = (await projectToUmap(distances, start, breathe))!;
    expect(points.length).toBe(90);
    for (let i = 0; i < 45; i++) {
      const others = Array.from({ length: 45 }, (_, j) => j).filter((j) => j !== i);
      const gap = (j: number): number =>
        Math.hypot(points[2 * i]! - points[2 * j]!, points[2 * i + 1]! - points[2 * j + 1]!);
      const nearest = others.reduce((a, b) => (gap(b) < gap(a) ? b : a));
      expect(nearest % 3).toBe(i % 3);
    }
    expect(await projectToUmap(distances, start, breathe)).toEqual(points);
  });

  it.each([5, 6, 14, 15, 16])('takes %i rows, copies too', async (count) => {
    const distances = await distancesOf(Array.from({ length: count }, (_, i) => rows[i % 4]!));
    const points = await projectToUmap(distances, start.slice(0, 2 * count), breathe);
    expect(points?.every(Number.isFinite)).toBe(true);
  });

  it('leaves fewer than five', async () => {
    expect(await projectToUmap(await distancesOf(rows.slice(0, 4)), start, breathe)).toBeUndefined();
  });
});
