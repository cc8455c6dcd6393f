/** The linear model of vectors, and what is chosen by it. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../../../src/base/random.js';
import {
  chooseUnits,
  LossModel,
} from '../../../../../src/products/precision/lowering/search/choose-units.js';
import { compareVectors } from '../../../../../src/onnx/tensor/compare-vectors.js';

function vectors(count: number, length: number, seed: number, scale = 1): Float32Array[] {
  const next = createRandom(seed);
  return Array.from({ length: count }, () => Float32Array.from({ length }, () => scale * (next() - 0.5)));
}

describe('LossModel', () => {
  it('gives the loss of the sum of the errors, whatever the steps', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e6 }), fc.array(fc.nat(4), { maxLength: 12 }), (seed, steps) => {
        const exact = vectors(3, 6, seed);
        const errors = Array.from({ length: 5 }, (_, unit) => vectors(3, 6, seed + 1 + unit, 0.1));
        const model = new LossModel({ exact, errors, savings: [1, 1, 1, 1, 1] });
        const chosen = new Set<number>();
        const sums = model.start(chosen);
        for (const unit of steps) {
          const sign = chosen.has(unit) ? -1 : 1;
          const expected = model.lossAfter(sums, chosen, unit, sign);
          model.move(sums, chosen, unit, sign);
          if (sign === 1) chosen.add(unit);
          else chosen.delete(unit);
          expect(model.loss(sums)).toBeCloseTo(expected, 10);
        }
        const losses = exact.map((row, k) => {
          const rounded = row.map((x, i) =>
            [...chosen].reduce((sum, unit) => sum + errors[unit]![k]![i]!, x),
          );
          return 1 - compareVectors(rounded, row).cosine;
        });
        expect(model.loss(sums)).toBeCloseTo(losses.reduce((sum, loss) => sum + loss ** 4, 0) ** 0.25, 5);
      }),
      { seed: 3 },
    );
  });
});

describe('chooseUnits', () => {
  const exact = [Float32Array.of(1, 0, 0)];
  const along = (y: number, z = 0): Float32Array[] => [Float32Array.of(0, y, z)];

  it('keeps units whose errors cancel, although each alone is the worst', () => {
    const errors = [along(0.5), along(-0.5), along(0, 0.2)];
    const model = new LossModel({ exact, errors, savings: [1, 1, 1] });
    expect(chooseUnits(model, [1, 1, 1], 0.001)).toEqual(new Set([0, 1]));
  });

  it('takes away what loses most for what it saves, and takes back what fits', () => {
    const errors = [along(0.2), along(0.2), along(0, 0.1)];
    const model = new LossModel({ exact, errors, savings: [10, 1, 5] });
    expect(chooseUnits(model, [10, 1, 5], 0.03)).toEqual(new Set([0, 2]));
    expect(chooseUnits(model, [10, 1, 5], 1)).toEqual(new Set([0, 1, 2]));
    expect(chooseUnits(model, [10, 1, 5], 0)).toEqual(new Set());
  });
});
