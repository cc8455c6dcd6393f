/** Principal components against the covariance's eigenvectors. */
import { describe, expect, it } from 'vitest';
import { EigenvalueDecomposition, Matrix as Numbers } from 'ml-matrix';
import type { Matrix } from '../../../../src/onnx/tensor/vectors/cosine.js';
import { principalComponents } from '../../../../src/onnx/tensor/vectors/principal-components.js';
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

describe('principalComponents', () => {
  it('finds the two directions of largest variance', async () => {
    const { places, explained } = await principalComponents(matrixOf(correlated), 2, breathe);
    const mean = correlated[0]!.map((_, j) => correlated.reduce((sum, row) => sum + row[j]!, 0) / 60);
    const centred = correlated.map((row) => row.map((value, j) => value - mean[j]!));
    const covariance = mean.map((_, i) =>
      mean.map((__, j) => centred.reduce((sum, row) => sum + row[i]! * row[j]!, 0)),
    );
    const exact = new EigenvalueDecomposition(new Numbers(covariance));
    const values = exact.realEigenvalues.toReversed();
    const rotation = exact.eigenvectorMatrix.transpose().to2DArray().toReversed();
    const total = values.reduce((sum, value) => sum + value, 0);
    expect(explained[0]).toBeCloseTo(values[0]! / total, 6);
    expect(explained[1]).toBeCloseTo(values[1]! / total, 6);
    for (const axis of [0, 1]) {
      const expected = centred.map((row) => row.reduce((sum, x, j) => sum + x * rotation[axis]![j]!, 0));
      const largest = rotation[axis]!.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a));
      expected.forEach((value, row) => expect(places[axis]![row]).toBeCloseTo(value * Math.sign(largest), 3));
    }
  });

  it('keeps points on a line on a line, and equal points in one place', async () => {
    const line = await principalComponents(matrixOf([0, 1, 2, 5].map((t) => [t, 2 * t, 7])), 2, breathe);
    expect(line.explained[0]).toBeCloseTo(1, 6);
    const [x] = line.places as [number[]];
    expect(x[1]! - x[0]!).toBeCloseTo(Math.sqrt(5), 4);
    expect(x[3]! - x[0]!).toBeCloseTo(5 * Math.sqrt(5), 4);
    const same = await principalComponents(matrixOf([[1, 2], [1, 2]]), 2, breathe); // prettier-ignore
    expect(same).toEqual({ places: [[0, 0], [0, 0]], explained: [0, 0] }); // prettier-ignore
  });

  it.each([
    ['a single row', [[1, 2, 3]]],
    ['a single column', [[1], [2], [4]]],
  ])('takes %s', async (_what, rows) => {
    const { places } = await principalComponents(matrixOf(rows), 2, breathe);
    expect(places.map((place) => place.length)).toEqual([rows.length, rows.length]);
    expect(places.flat().every(Number.isFinite)).toBe(true);
  });

  it('stops when it is told to', async () => {
    const stop = (): Promise<void> => Promise.reject(new Error('enough'));
    await expect(principalComponents(matrixOf(correlated), 2, stop)).rejects.toThrow('enough');
  });
});
