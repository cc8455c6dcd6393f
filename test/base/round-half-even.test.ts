import { expect, it } from 'vitest';
import { roundHalfEven } from '../../src/base/round-half-even.js';

it('rounds halves to even numbers, and all others to the nearest', () => {
  const rounded = [-3.5, -2.5, -1.4, 0, 0.5, 1.5, 2.5, 2.51, 22.5].map(roundHalfEven);
  expect(rounded).toEqual([-4, -2, -1, 0, 0, 2, 2, 3, 22]);
});
