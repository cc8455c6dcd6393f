/** The bound: whatever the order of summation, the exact value does not exceed it. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { unitVector } from '../../../../src/onnx/tensor/vectors/unit-vector.js';
import {
  createQuery,
  exactValue,
  METRICS,
  slackOf,
  upperBound,
} from '../../../../src/products/features/search/metric.js';

const element = fc.float({ noNaN: true, noDefaultInfinity: true });

describe('upperBound', () => {
  it.each(METRICS)('holds for float32 sums in both directions, by %s', (metric) => {
    const vectors = fc
      .integer({ min: 1, max: 40 })
      .chain((length) =>
        fc.tuple(...[0, 1].map(() => fc.array(element, { minLength: length, maxLength: length }))),
      );
    fc.assert(
      fc.property(vectors, fc.boolean(), ([rowValues, queryValues], isBackwards) => {
        const row = Float32Array.from(rowValues!);
        const query = createQuery(Float32Array.from(queryValues!));
        const unit = unitVector(query.vector);
        let dot = 0;
        let square = 0;
        for (let i = 0; i < row.length; i++) {
          const at = isBackwards ? row.length - 1 - i : i;
          dot = Math.fround(dot + Math.fround(row[at]! * unit[at]!));
          square = Math.fround(square + Math.fround(row[at]! * row[at]!));
        }
        const bound = upperBound(metric, query, dot, square, slackOf(row.length, true));
        expect(bound).toBeGreaterThanOrEqual(exactValue(metric, query, row, 0));
      }),
      { numRuns: 2000 },
    );
  });

  it('is no bound at all where sums of that many numbers may be anything', () => {
    expect(slackOf(2 ** 23, true)).toBe(Infinity);
    expect(slackOf(2048, false)).toBeGreaterThan(slackOf(2048, true));
  });
});
