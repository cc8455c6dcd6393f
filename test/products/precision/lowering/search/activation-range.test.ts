/** Ranges of activations: extremes and histograms that do not depend on the order of photos. */
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../../../src/base/random.js';
import {
  ActivationRange,
  RANGE_RULES,
  roundingBy,
} from '../../../../../src/products/precision/lowering/search/activation-range.js';

const next = createRandom(1);
/** Most values are small, a few are large. */
const parts = Array.from({ length: 5 }, (_, k) =>
  Float32Array.from({ length: 4000 }, (_value, i) => (i % 1999 === 0 ? 40 * k : next() - 0.3)),
);

function rangeOf(given: readonly Float32Array[]): ActivationRange {
  const range = new ActivationRange();
  for (const part of given) range.add(part);
  return range;
}

describe('ActivationRange', () => {
  it('is the same in any order', () => {
    const [there, back] = [rangeOf(parts), rangeOf(parts.toReversed())];
    for (const rule of RANGE_RULES) expect(roundingBy(rule, there)).toEqual(roundingBy(rule, back));
    expect([there.low, there.high]).toEqual([back.low, back.high]);
  });

  it('leaves out a share of the values at each end', () => {
    const range = rangeOf([Float32Array.from({ length: 10_000 }, (_, i) => i / 100)]);
    const [low, high] = range.percentile(0.99);
    expect(low).toBeCloseTo(1, 0);
    expect(high).toBeCloseTo(99, 0);
    expect(range.percentile(1)).toEqual([0, range.high]);
  });

  it('clips rare large values by least squares, and none where all are alike', () => {
    const rare = rangeOf([Float32Array.from({ length: 100_000 }, (_, i) => (i === 0 ? 3 : (i % 100) / 100))]);
    expect(rare.leastSquares()[1]).toBeLessThan(3);
    const even = rangeOf([Float32Array.from({ length: 1000 }, (_, i) => i / 1000)]);
    expect(even.leastSquares()[1]).toBeCloseTo(1, 2);
  });

  it('says that a value is not finite, and takes zeros', () => {
    expect(rangeOf([Float32Array.of(1, NaN)]).isBroken).toBe(true);
    expect(rangeOf([Float32Array.of(1, Infinity)]).isBroken).toBe(true);
    const zeros = rangeOf([new Float32Array(10)]);
    for (const rule of RANGE_RULES) expect(roundingBy(rule, zeros).scale).toBeGreaterThan(0);
  });
});
