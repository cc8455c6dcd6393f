import { expect, it, vi } from 'vitest';
import { oncePer } from '../../src/base/once-per.js';

it('computes once for each object, also where that gives undefined', () => {
  const compute = vi.fn((key: { readonly of?: number }, factor: number) => key.of && key.of * factor);
  const times = oncePer(compute);
  const [two, none] = [{ of: 2 }, {}];
  expect([times(two, 3), times(two, 5), times(none, 3), times(none, 3)]).toEqual([
    6,
    6,
    undefined,
    undefined,
  ]);
  expect(times({ of: 2 }, 5)).toBe(10);
  expect(compute).toHaveBeenCalledTimes(3);
});
