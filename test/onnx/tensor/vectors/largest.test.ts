/** The largest values, against a sort. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Largest, listLargest } from '../../../../src/onnx/tensor/vectors/largest.js';

const most = fc.integer({ min: 0, max: 8 });

describe('Largest', () => {
  it('keeps the largest, of equal ones the lowest numbers, in any order of arrival', () => {
    const items = fc.array(fc.record({ index: fc.nat(50), value: fc.integer({ min: 0, max: 5 }) }));
    fc.assert(
      fc.property(items, most, (added, count) => {
        const largest = new Largest(count);
        for (const { index, value } of added) largest.add(index, value);
        const sorted = added.toSorted((a, b) => b.value - a.value || a.index - b.index).slice(0, count);
        expect(largest.indices).toEqual(sorted.map(({ index }) => index));
        expect(largest.values).toEqual(sorted.map(({ value }) => value));
        expect(largest.least).toBe(sorted.length < count ? -Infinity : (sorted.at(-1)?.value ?? Infinity));
      }),
    );
  });

  it('puts infinities at the ends, and NaN with the smallest', () => {
    expect(listLargest([NaN, 1, -Infinity, Infinity, NaN, 2], 4)).toEqual([3, 5, 1, 0]);
    expect(listLargest([NaN, -Infinity, NaN], 2)).toEqual([0, 1]);
  });
});
