import { describe, expect, it } from 'vitest';
import {
  describeCosines,
  joinComparisons,
  latestComparison,
  leastCosine,
  type Float32Comparison,
} from '../../../src/datasets/records/float32-comparison.js';

const compared = (images: number, least: number, mean: number): Float32Comparison => ({
  images,
  cosine: { f: { least, mean } },
});

describe('comparisons with float32', () => {
  it('are joined: the least cosine, and the mean over all images', () => {
    expect(joinComparisons([])).toBeUndefined();
    expect(joinComparisons([compared(4, 0.9, 0.95)])).toEqual(compared(4, 0.9, 0.95));
    const joined = joinComparisons([compared(4, 0.9, 0.95), compared(12, 0.99, 0.99)])!;
    expect(joined).toMatchObject({ images: 16, cosine: { f: { least: 0.9 } } });
    expect(joined.cosine['f']!.mean).toBeCloseTo(0.98, 12);
    // Rounding does not lift the mean above 1.
    const ones = joinComparisons([1, 3, 5, 7].map((images) => compared(images, 1, 1)))!;
    expect(ones).toEqual(compared(16, 1, 1));
  });

  it('are taken from the latest shard that has one', () => {
    expect(latestComparison([])).toBeUndefined();
    const shards = [{ againstFloat32: compared(8, 1, 1) }, { againstFloat32: compared(16, 1, 1) }, {}];
    expect(latestComparison(shards)).toEqual(compared(16, 1, 1));
  });

  it('name the output that is furthest', () => {
    const cosine = { f: { least: 0.99, mean: 1 }, g: { least: 0.9, mean: 1 } };
    expect(leastCosine({ images: 1, cosine })).toEqual({ key: 'g', least: 0.9 });
    expect(leastCosine({ images: 1, cosine: {} })).toBeUndefined();
  });

  it('are shown rounded down', () => {
    const cosine = { f: { least: 0.99939 }, g: { least: 0.99999 }, h: { least: 1 } };
    expect(describeCosines(cosine)).toBe('cosine ≥ 0.9993 (f), ≥ 0.9999 (g), ≥ 1.0000 (h)');
  });
});
