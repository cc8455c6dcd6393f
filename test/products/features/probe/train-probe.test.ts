/** Probes against scikit-learn: the values that test/fixtures/probe/make.py wrote. */
import { predictProbe, trainProbe, type Probe } from 'onnx-tapir/features';
import type { Progress } from '../../../../src/base/progress.js';
import { describe, expect, it } from 'vitest';
import {
  biasOf,
  datasetOf,
  farthest,
  readGolden,
  weightsOf,
  type GoldenLinear,
  type Labelled,
} from '../../../support/probe-data.js';

const SETS = ['digits', 'wine', 'photos'];
const FAST = { folds: 0, tolerance: 1e-7 } as const;

/** The objective of scikit-learn, computed again from a probe's weights. */
function objectiveOf(
  probe: Probe,
  { vectors, labels }: Labelled,
  strength: number,
  weights?: number[],
): number {
  const rows = weightsOf(probe);
  const bias = biasOf(probe);
  const squares = rows.flat().reduce((sum, value) => sum + value * value, 0);
  let loss = 0;
  let total = 0;
  for (const [i, vector] of vectors.entries()) {
    const scores = rows.map((row, k) => row.reduce((sum, value, j) => sum + value * vector[j]!, bias[k]!));
    const most = Math.max(...scores);
    const normalizer = most + Math.log(scores.reduce((sum, score) => sum + Math.exp(score - most), 0));
    const weight = weights?.[labels[i]!] ?? 1;
    loss += weight * (normalizer - scores[labels[i]!]!);
    total += weight;
  }
  return (0.5 * squares + strength * loss) / (strength * total);
}

function expectLinear(probe: Probe, golden: GoldenLinear, tolerance: number): void {
  const { coef, intercept } = golden;
  const isBinary = coef.length === 1;
  const weights = isBinary ? weightsOf(probe).slice(1) : weightsOf(probe);
  const bias = isBinary ? biasOf(probe).slice(1) : biasOf(probe);
  expect(farthest(weights, coef)).toBeLessThan(tolerance);
  expect(farthest([bias], [intercept])).toBeLessThan(tolerance * Math.max(1, ...intercept.map(Math.abs)));
}

/** The rows of the first two classes. */
function firstTwo({ elements, vectors, labels }: Labelled): Labelled {
  const rows = [...labels.keys()].filter((row) => labels[row]! < 2);
  return { elements, vectors: rows.map((row) => vectors[row]!), labels: rows.map((row) => labels[row]!) };
}

describe.each(SETS)('trainProbe on %s', (name) => {
  const golden = readGolden(name);
  const dataset = datasetOf(golden);

  it.each(Object.keys(golden.logistic))('logistic, C = %s: the optimum of scikit-learn', async (key) => {
    const expected = golden.logistic[key]!;
    const strength = Number(key);
    const probe = await trainProbe(dataset, 'by-folder', { ...FAST, strength });
    expect(probe.warnings).toEqual(['1 image left out, which could not be embedded']);
    expect(Math.abs(objectiveOf(probe, golden, strength) - expected.objective)).toBeLessThan(1e-6);
    expectLinear(probe, expected, 1e-3);
  });

  it('logistic with balanced classes', async () => {
    const [strength] = Object.keys(golden.logistic).map(Number);
    const probe = await trainProbe(dataset, 'by-folder', { ...FAST, strength, classWeights: 'balanced' });
    expectLinear(probe, golden.balanced, 1e-3);
  });

  it('logistic of two classes', async () => {
    const [strength] = Object.keys(golden.logistic).map(Number);
    const probe = await trainProbe(datasetOf(firstTwo(golden)), 'by-folder', { ...FAST, strength });
    expectLinear(probe, golden.binary, 1e-3);
    expect(weightsOf(probe)[0]!.every((value) => value === 0)).toBe(true);
  });

  it('logistic with standardized elements, folded into plain weights', async () => {
    const options = { ...FAST, strength: 0.1, normalize: 'standardize' } as const;
    const probe = await trainProbe(dataset, 'by-folder', options);
    expect(farthest(weightsOf(probe), golden.standardized.coef)).toBeLessThan(1e-3);
  });

  it.each(Object.keys(golden.ridge))('ridge, alpha = %s', async (key) => {
    const probe = await trainProbe(dataset, 'by-folder', { folds: 0, kind: 'ridge', strength: Number(key) });
    expectLinear(probe, golden.ridge[key]!, 1e-9);
  });

  it('ridge with balanced classes, and of two classes', async () => {
    const options = { folds: 0, kind: 'ridge', strength: 1 } as const;
    const balanced = await trainProbe(dataset, 'by-folder', { ...options, classWeights: 'balanced' });
    expectLinear(balanced, golden.ridgeBalanced, 1e-9);
    const binary = await trainProbe(datasetOf(firstTwo(golden)), 'by-folder', options);
    expectLinear(binary, golden.ridgeBinary, 1e-9);
  });

  it.each([
    ['knn', { kind: 'knn' }],
    ['cosine', { kind: 'knn', normalize: 'l2' }],
    ['centroid', { kind: 'centroid' }],
  ] as const)('%s predicts what scikit-learn predicts', async (key, options) => {
    const labels = new Map(
      golden.labels.flatMap((label, row) =>
        row % 2 === 0 ? [[`${label}/${row}.png`, `${label}`] as const] : [],
      ),
    );
    const probe = await trainProbe(dataset, labels, { folds: 0, ...options });
    const odd = golden.vectors.filter((_, row) => row % 2 === 1);
    const predicted = odd.map((vector) => Number(predictProbe(probe, vector).label));
    expect(predicted).toEqual(golden.halves[key]);
  });
});

it.each(['ridge', 'logistic'] as const)(
  '%s: an element of another scale takes no weight from the others',
  async (kind) => {
    const { elements, vectors, labels } = readGolden('wine');
    const scaled = vectors.map((vector) => vector.map((value, j) => (j === 0 ? value * 2 ** 27 : value)));
    const options = { kind, folds: 0, strength: 1, normalize: 'standardize' } as const;
    const probe = await trainProbe(datasetOf({ elements, vectors, labels }), 'by-folder', options);
    const other = await trainProbe(datasetOf({ elements, vectors: scaled, labels }), 'by-folder', options);
    const back = weightsOf(other).map((row) => row.map((value, j) => (j === 0 ? value * 2 ** 27 : value)));
    expect(farthest(back, weightsOf(probe))).toBeLessThan(1e-5);
  },
);

it.each([0.01, 1, 100])(
  'fewer rows than elements, C = %s: the slope of the objective is zero',
  async (strength) => {
    const { elements, vectors, labels } = readGolden('photos');
    // Every eleventh row, and one of them twice.
    const chosen = [0, ...labels.keys()].filter((row) => row % 11 === 0);
    const few = {
      elements,
      vectors: chosen.map((row) => vectors[row]!),
      labels: chosen.map((row) => labels[row]!),
    };
    expect(few.labels.length).toBeLessThan(elements);
    const probe = await trainProbe(datasetOf(few), 'by-folder', { folds: 0, strength });
    const weights = weightsOf(probe);
    const slopes = weights.map((row) => [...row]);
    const ofBias = weights.map(() => 0);
    for (const [i, vector] of few.vectors.entries()) {
      const predicted = predictProbe(probe, vector).scores;
      for (const [k, name] of probe.classes.entries()) {
        const miss = strength * (predicted[k]! - Number(String(few.labels[i]) === name));
        ofBias[k]! += miss;
        for (const [j, value] of vector.entries()) slopes[k]![j]! += miss * value;
      }
    }
    const most = Math.max(...weights.flat().map(Math.abs));
    expect(
      farthest(
        slopes,
        slopes.map((row) => row.map(() => 0)),
      ),
    ).toBeLessThan(1e-3 * most);
    expect(Math.max(...ofBias.map(Math.abs))).toBeLessThan(1e-4 * strength);
  },
);

it('the chosen strength has the figures of the result, and those of the strength alone', async () => {
  const dataset = datasetOf(readGolden('wine'));
  const tried = await trainProbe(dataset, 'by-folder', { folds: 4, tolerance: 1e-7 });
  const chosen = tried.strengths.find(({ strength }) => strength === tried.strength)!;
  expect(chosen.accuracy).toBe(tried.results!.accuracy);
  expect(chosen.logLoss).toBeCloseTo(tried.results!.calibration!.logLoss, 12);
  const { strength } = chosen;
  const alone = await trainProbe(dataset, 'by-folder', { folds: 4, tolerance: 1e-7, strength });
  expect(alone.results!.accuracy).toBe(chosen.accuracy);
  expect(alone.results!.calibration!.logLoss).toBeCloseTo(chosen.logLoss!, 3);
});

describe('the progress of a probe', () => {
  it.each(['logistic', 'ridge', 'centroid', 'knn'] as const)(
    '%s: all rows within each step',
    async (kind) => {
      const told: Progress[] = [];
      const { vectors, ...golden } = readGolden('wine');
      await trainProbe(datasetOf({ ...golden, vectors }, 16), 'by-folder', {
        kind,
        onProgress: (progress) => told.push(progress),
      });
      const rows = told.filter(({ unit }) => unit === 'rows');
      expect(rows.every(({ done, total }) => total === vectors.length && done <= total)).toBe(true);
      // A step that goes over the rows tells it, from each pass to its end.
      const steps = told.filter(({ unit }) => unit === 'steps').map(({ what }) => what!);
      for (const step of steps.slice(1)) {
        const within = rows.filter(({ what }) => what!.startsWith(step));
        expect(within.at(-1)?.done, step).toBe(vectors.length);
      }
      if (kind !== 'logistic') return;
      expect(steps.filter((step) => step.startsWith('trying strength'))).toHaveLength(7);
      const passes = rows.filter(({ what }) =>
        /^trying strength 0.01 \(2 of 7\), pass \d+, [1-5] classifiers? left$/.test(what!),
      );
      expect(passes.length).toBeGreaterThan(1);
    },
  );
});
