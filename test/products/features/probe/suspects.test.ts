/** Labels that were changed on purpose, among the suspects of a probe. */
import { trainProbe, type TrainProbeOptions } from 'onnx-tapir/features';
import { describe, expect, it } from 'vitest';
import { evaluate, type Evaluation } from '../../../../src/products/features/probe/fit/evaluate.js';
import { createRandom, shuffled } from '../../../../src/base/random.js';
import { datasetOf, readGolden } from '../../../support/probe-data.js';

const CHANGED = 10;

/** Evaluates scores of rows as one block. */
function evaluateScores(
  scores: readonly (readonly number[])[],
  labels: readonly number[],
  isProbability: boolean,
): Promise<Evaluation> {
  const classes = scores[0]!.map((_, k) => `class ${k}`);
  async function* read(): AsyncGenerator<{ first: number; rows: number; scores: Float64Array }> {
    yield { first: 0, rows: scores.length, scores: Float64Array.from(scores.flat()) };
  }
  return evaluate({ read, isProbability }, Int32Array.from(labels), classes);
}

const rowsOf = ({ suspects }: Evaluation): number[] => suspects.map(({ row }) => row);

describe('digits with ten wrong labels', () => {
  const golden = readGolden('digits');
  const random = createRandom(0);
  const changed = shuffled([...golden.labels.keys()], random).slice(0, CHANGED);
  const labels = new Map(golden.labels.map((label, row) => [`${label}/${row}.png`, `${label}`]));
  for (const row of changed) {
    const label = golden.labels[row]!;
    labels.set(`${label}/${row}.png`, `${(label + 1 + Math.floor(9 * random())) % 10}`);
  }
  const dataset = datasetOf(golden);

  it.each<[Partial<TrainProbeOptions>, number]>([
    [{ kind: 'logistic', strength: 0.01, tolerance: 1e-4 }, 9],
    [{ kind: 'logistic', strength: 1, tolerance: 1e-4 }, 9],
    [{ kind: 'ridge', strength: 1 }, 9],
    [{ kind: 'knn' }, 9],
    [{ kind: 'centroid' }, 7],
  ])('%o has them among its first twenty suspects: at least %i', async (options, least) => {
    const { results } = await trainProbe(dataset, labels, options);
    const first = new Set(results!.suspects.slice(0, 2 * CHANGED).map(({ row }) => row));
    expect(changed.filter((row) => first.has(row)).length).toBeGreaterThanOrEqual(least);
    expect(results!.suspectCount).toBe(Math.round(results!.rows * (1 - results!.accuracy)));
  });
});

describe('the order of suspects', () => {
  it('is by the ratio of probabilities: 0.4 to 0.01 before 0.9 to 0.1', async () => {
    const scores = [
      [0.9, 0.1, 0],
      [0.1, 0.9, 0],
      [0.59, 0.01, 0.4],
      [0.4, 0.01, 0.59],
    ];
    const found = await evaluateScores(scores, [0, 0, 1, 2], true);
    expect(rowsOf(found)).toEqual([2, 1]);
    expect(found.suspects[1]).toEqual({
      row: 1,
      given: 0,
      suggested: 1,
      givenScore: 0.1,
      suggestedScore: 0.9,
    });
    expect(found.suspectCount).toBe(2);
  });

  it('is by the difference of other scores, which a shift of all of them does not change', async () => {
    const scores = [
      [-5, -9],
      [101, 103],
      [-3, -1.5],
    ];
    expect(rowsOf(await evaluateScores(scores, [1, 0, 0], false))).toEqual([0, 1, 2]);
  });

  it('has the label of the better known class first among equals, then the first row', async () => {
    const scores = [
      [0, 1, 0],
      [1, 0, 0],
      [0, 0, 1],
      [0, 0, 1],
      [0, 0, 1],
      [1, 0, 0],
    ];
    // Images of class 1 are recognised half the time, images of class 0 a third.
    const { suspects } = await evaluateScores(scores, [1, 1, 0, 0, 2, 0], true);
    expect(suspects.map(({ row }) => row)).toEqual([1, 2, 3]);
  });
});
