import { expect, it } from 'vitest';
import {
  addReduced,
  NOTHING_REDUCED,
  summarizeReduced,
} from '../../../src/datasets/records/reduced-images.js';

it('adds up over images and shards', () => {
  const first = [
    { reduction: 4, deviation: { mean: 0.5, max: 9 } },
    { reduction: 2 },
    { reduction: 1 },
    { reduction: 2, deviation: { mean: 1, max: 3 } },
  ].reduce(addReduced, NOTHING_REDUCED);
  expect(first).toEqual({ images: 3, measured: 2, sum: 1.5, max: 9 });
  const second = addReduced(NOTHING_REDUCED, { reduction: 8, deviation: { mean: 3, max: 20 } });
  expect(summarizeReduced([first, NOTHING_REDUCED, second])).toEqual({
    images: 4,
    deviation: { images: 3, mean: 1.5, max: 20 },
  });
});

it('has no deviation if none was measured', () => {
  expect(summarizeReduced([])).toEqual({ images: 0, deviation: null });
  expect(summarizeReduced([addReduced(NOTHING_REDUCED, { reduction: 2 })])).toEqual({
    images: 1,
    deviation: null,
  });
});
