/** Principal components against the covariance's eigenvectors. */
import { describe, expect, it } from 'vitest';
import type { Matrix } from '../../../../src/tensor/vectors/matrix.js';
import { eigenSymmetric, projectToPca } from '../../../../src/pages/report/collect/pca.js';
import { createRandom } from '../../../../src/base/random.js';

const breathe = (): Promise<void> => Promise.resolve();
const random = createRandom(7);
const matrixOf = (rows: readonly (readonly number[])[]): Matrix => ({
  rows: rows.length,
  columns: rows[0]!.length,
  data: Float32Array.from(rows.flat()),
});
/** Rows whose columns differ in spread, and follow one another. */
const correlated = Array.from({ length: 60 }, () => {
  const [a, b] = [random() - 0.5, random() - 0.5];
  return Array.from({ length: 12 }, (_, i) => 3 * a * Math.sin(i) + b * i * 0.2 + 0.1 * random() + i);
});

describe('eigenSymmetric', () => {
  it('gives orthonormal vectors that make the matrix diagonal', () => {
    const size = 6;
    const half = Array.from({ length: size }, () => Array.from({ length: size }, () => random() - 0.5));
    const matrix = half.map((row, i) => row.map((value, j) => value + half[j]![i]!));
    const { values, rotation } = eigenSymmetric(matrix);
    rotation.forEach((vector, k) => {
      const image = matrix.map((row) => row.reduce((sum, value, j) => sum + value * vector[j]!, 0));
      image.forEach((value, i) => expect(value).toBeCloseTo(values[k]! * vector[i]!, 10));
      expect(Math.hypot(...vector)).toBeCloseTo(1, 12);
    });
    expect(values).toEqual(values.toSorted((a, b) => b - a));
  });
});

describe('projectToPca', () => {
  it('finds the two directions of largest variance', async () => {
    const { points, explained } = await projectToPca(matrixOf(correlated), breathe);
    const mean = correlated[0]!.map((_, j) => correlated.reduce((sum, row) => sum + row[j]!, 0) / 60);
    const centred = correlated.map((row) => row.map((value, j) => value - mean[j]!));
    const covariance = mean.map((_, i) =>
      mean.map((__, j) => centred.reduce((sum, row) => sum + row[i]! * row[j]!, 0)),
    );
    const { values, rotation } = eigenSymmetric(covariance);
    const total = values.reduce((sum, value) => sum + value, 0);
    expect(explained[0]).toBeCloseTo(values[0]! / total, 6);
    expect(explained[1]).toBeCloseTo(values[1]! / total, 6);
    for (const axis of [0, 1]) {
      const expected = centred.map((row) => row.reduce((sum, x, j) => sum + x * rotation[axis]![j]!, 0));
      const largest = rotation[axis]!.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a));
      expected.forEach((value, row) =>
        expect(points[row * 2 + axis]).toBeCloseTo(value * Math.sign(largest), 3),
      );
    }
  });

  it('keeps points on a line on a line, and equal points in one place', async () => {
    const line = await projectToPca(matrixOf([0, 1, 2, 5].map((t) => [t, 2 * t, 7])), breathe);
    expect(line.explained[0]).toBeCloseTo(1, 6);
    expect(line.points[2]! - line.points[0]!).toBeCloseTo(Math.sqrt(5), 4);
    expect(line.points[6]! - line.points[0]!).toBeCloseTo(5 * Math.sqrt(5), 4);
    const same = await projectToPca(matrixOf([[1, 2], [1, 2]]), breathe); // prettier-ignore
    expect(same).toEqual({ points: new Float64Array(4), explained: [0, 0] });
  });

  it.each([
    ['a single row', [[1, 2, 3]]],
    ['a single column', [[1], [2], [4]]],
  ])('takes %s', async (_what, rows) => {
    const { points } = await projectToPca(matrixOf(rows), breathe);
    expect(points.length).toBe(rows.length * 2);
    expect(points.every(Number.isFinite)).toBe(true);
  });

  it('stops when it is told to', async () => {
    const stop = (): Promise<void> => Promise.reject(new Error('enough'));
    await expect(projectToPca(matrixOf(correlated), stop)).rejects.toThrow('enough');
  });
});
