/** Clipping against torch's, and what it refuses. */
import { describe, expect, it } from 'vitest';
import { clipByNorm, clipByValue, totalNorm } from '../../../src/train/optimizers/clip-gradients.js';
import { sharedNote } from '../../support/fixtures.js';
import {
  decode,
  hasTraining,
  readTraining,
  summaryDifference,
  type StoredTensor,
  type Summary,
} from '../../support/training.js';

interface ClippingCase {
  readonly kind: 'norm' | 'value';
  readonly normType: number | 'inf';
  readonly maxNorm: number;
  readonly totalNorm: number;
  readonly clipValue: number;
  readonly after: Readonly<Record<string, Summary>>;
}

describe.skipIf(!hasTraining)(`clipping against torch${sharedNote}`, () => {
  it('gives the same norms and gradients', () => {
    const { cases } = readTraining<{ cases: readonly ClippingCase[] }>('optimizers/clipping.json');
    const { frozen } = readTraining<{ frozen: { full: Readonly<Record<string, unknown>> } }>(
      'models/vit.json',
    );
    const stored = (frozen.full['gradients'] ?? frozen.full) as Readonly<Record<string, StoredTensor>>;
    expect(cases).toHaveLength(7);
    for (const one of cases) {
      const tensors = Object.keys(one.after).map((name) => [name, decode(stored[name]!)] as const);
      const gradients = tensors.map(([, { data }]) => data as Float32Array);
      if (one.kind === 'value') clipByValue(gradients, one.clipValue);
      else {
        const norm = clipByNorm(gradients, one.maxNorm, one.normType === 'inf' ? Infinity : one.normType);
        expect(Math.abs(norm / one.totalNorm - 1)).toBeLessThan(1e-6);
      }
      for (const [name, tensor] of tensors)
        expect(summaryDifference(tensor, one.after[name]!), name).toBeLessThanOrEqual(
          1e-6 * one.after[name]!.maxAbs + 1e-8,
        );
    }
  });
});

describe('clipByNorm', () => {
  const gradients = (): Float32Array[] => [Float32Array.of(3, 0), Float32Array.of(-4)];

  it.each([
    [1, 7],
    [2, 5],
    [Infinity, 4],
  ])('scales to a norm (%d) of 1, and returns the norm before', (normType, before) => {
    const given = gradients();
    expect(clipByNorm(given, 1, normType)).toBe(before);
    expect(totalNorm(given, normType)).toBeCloseTo(1, 5);
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
    expect(totalNorm([Float32Array.of(NaN), Float32Array.of(5)], Infinity)).toBeNaN();
  });

  it('refuses other norms and negative limits', () => {
    expect(() => clipByNorm(gradients(), 1, 3)).toThrow(/option "normType" must be 1, 2 or Infinity, got 3/);
    expect(() => clipByNorm(gradients(), -1)).toThrow(/option "maxNorm" must be a finite number from 0/);
  });
});

describe('clipByValue', () => {
  it('limits each element', () => {
    const given = [Float32Array.of(3, -0.5), Float32Array.of(-4)];
    clipByValue(given, 1);
    expect(given).toEqual([Float32Array.of(1, -0.5), Float32Array.of(-1)]);
    expect(() => clipByValue(given, NaN)).toThrow(/option "limit"/);
  });
});
