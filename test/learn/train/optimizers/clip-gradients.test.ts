/** Clipping against torch's, and what it refuses. */
import { describe, expect, it } from 'vitest';
import { clipByNorm } from '../../../../src/learn/train/optimizers/clip-gradients.js';
import { sharedNote } from '../../../support/fixtures.js';
import {
  decode,
  hasTraining,
  readTraining,
  summaryDifference,
  type StoredTensor,
  type Summary,
} from '../../../support/training.js';

interface ClippingCase {
  readonly kind: 'norm' | 'value';
  readonly normType: number | 'inf';
  readonly maxNorm: number;
  readonly totalNorm: number;
  readonly after: Readonly<Record<string, Summary>>;
}

describe.skipIf(!hasTraining)(`clipping against torch${sharedNote}`, () => {
  it('gives the same norms and gradients', () => {
    const { cases } = readTraining<{ cases: readonly ClippingCase[] }>('optimizers/clipping.json');
    const { frozen } = readTraining<{ frozen: { full: Readonly<Record<string, unknown>> } }>(
      'models/vit.json',
    );
    const stored = (frozen.full['gradients'] ?? frozen.full) as Readonly<Record<string, StoredTensor>>;
    // The others clip by value or by another norm.
    const euclidean = cases.filter(({ kind, normType }) => kind === 'norm' && normType === 2);
    expect(euclidean.length).toBeGreaterThan(1);
    for (const one of euclidean) {
      const tensors = Object.keys(one.after).map((name) => [name, decode(stored[name]!)] as const);
      const gradients = tensors.map(([, { data }]) => data as Float32Array);
      const norm = clipByNorm(gradients, one.maxNorm);
      expect(Math.abs(norm / one.totalNorm - 1)).toBeLessThan(1e-6);
      for (const [name, tensor] of tensors)
        expect(summaryDifference(tensor, one.after[name]!), name).toBeLessThanOrEqual(
          1e-6 * one.after[name]!.maxAbs + 1e-8,
        );
    }
  });
});

describe('clipByNorm', () => {
  const gradients = (): Float32Array[] => [Float32Array.of(3, 0), Float32Array.of(-4)];

  it('scales to a length of 1, and returns the length before', () => {
    const given = gradients();
    expect(clipByNorm(given, 1)).toBe(5);
    expect(clipByNorm(given, 2)).toBeCloseTo(1, 5);
    expect(given[0]![0]! / given[1]![0]!).toBeCloseTo(-0.75, 6);
  });

  it('leaves small gradients as they are', () => {
    const given = gradients();
    expect(clipByNorm(given, 6)).toBe(5);
    expect(given).toEqual(gradients());
  });

  it('sums without overflow', () => {
    const huge = [Float32Array.of(3e38, 0), Float32Array.of(-3e38)];
    expect(clipByNorm(huge, 1)).toBeCloseTo(3e38 * Math.SQRT2, -33);
    expect(huge[0]![0]).toBeCloseTo(Math.SQRT1_2, 5);
  });

  it('shows what is not finite', () => {
    expect(clipByNorm([Float32Array.of(1, NaN)], 1)).toBeNaN();
    expect(clipByNorm([Float32Array.of(1, Infinity)], 1)).toBe(Infinity);
  });
});
