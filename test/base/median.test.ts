import { expect, it } from 'vitest';
import { medianOf } from '../../src/base/median.js';

it.each([
  [[3], 3],
  [[9, 1, 5], 5],
  [[4, 1, 3, 2], 2.5],
  [[10, 9, 100], 10],
  [[], NaN],
])('the median of %j is %d', (numbers, expected) => {
  const given = [...numbers];
  expect(medianOf(given)).toBe(expected);
  expect(given).toEqual(numbers);
});
