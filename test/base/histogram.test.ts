/** Values in equal steps. */
import { describe, expect, it } from 'vitest';
import { countInBins } from '../../src/base/histogram.js';

describe('countInBins', () => {
  it('counts each value once', () => {
    expect(countInBins(Float64Array.of(0, 0.1, 0.5, 0.99, 1), 2)).toEqual({ min: 0, max: 1, counts: [2, 3] });
    expect(countInBins(Float64Array.of(2, 2), 5)).toEqual({ min: 2, max: 2, counts: [2] });
    expect(countInBins(new Float64Array(), 5)).toBeUndefined();
  });
});
