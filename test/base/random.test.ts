import { expect, it } from 'vitest';
import { createRandom } from '../../src/base/random.js';

it('gives the numbers of mulberry32', () => {
  // The reference in C, seed 42, divided by 2^32.
  const random = createRandom(42);
  expect([random(), random(), random()]).toEqual([
    0.6011037519201636, 0.44829055899754167, 0.8524657934904099,
  ]);
});

it('gives the same numbers again, others for another seed, and all from 0 to under 1', () => {
  const [one, again, other] = [createRandom(7), createRandom(7), createRandom(8)];
  const numbers = Array.from({ length: 10_000 }, one);
  expect(Array.from({ length: 10_000 }, again)).toEqual(numbers);
  expect(other()).not.toBe(numbers[0]);
  expect(numbers.every((number) => number >= 0 && number < 1)).toBe(true);
  expect(numbers.reduce((sum, number) => sum + number, 0) / numbers.length).toBeCloseTo(0.5, 1);
});
