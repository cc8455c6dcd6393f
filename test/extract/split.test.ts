/** Splitting rows over devices: torch's golden tables, weights, and refused options. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chunkSizes, deviceRows, readSplit } from '../../src/extract/replicas/split.js';
import { casesOf } from '../support/parallel-cases.js';

describe('chunkSizes', () => {
  it.each(casesOf('chunk'))('$id: $input', ({ input, result }) => {
    const { n, devices } = input as { n: number; devices: number };
    expect(chunkSizes(n, devices)).toEqual((result as { sizes: number[] }).sizes);
  });

  it.each([
    [-1, 1],
    [1.5, 1],
    [1, 0],
    ['3' as unknown as number, 1],
  ])('refuses %j rows over %j devices', (rows, devices) => {
    expect(() => chunkSizes(rows, devices)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });
});

describe('deviceRows', () => {
  it('adds up, one number per device, whatever the split', () => {
    const weights = fc.array(fc.float({ min: 0, max: 100, noNaN: true }), { minLength: 1, maxLength: 9 });
    fc.assert(
      fc.property(fc.nat(10_000), weights, (rows, list) => {
        fc.pre(list.some((weight) => weight > 0));
        for (const split of ['chunk', 'balanced', list] as const) {
          const sizes = deviceRows(split, rows, list.length);
          expect(sizes).toHaveLength(list.length);
          expect(sizes.every((size) => Number.isInteger(size) && size >= 0)).toBe(true);
          expect(sizes.reduce((a, b) => a + b, 0)).toBe(rows);
        }
        const even = deviceRows('balanced', rows, list.length);
        expect(Math.max(...even) - Math.min(...even)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it.each([
    // torch.tensor_split's.
    ['balanced', 30, 4, [8, 8, 7, 7]],
    ['balanced', 9, 8, [2, 1, 1, 1, 1, 1, 1, 1]],
    ['chunk', 9, 8, [2, 2, 2, 2, 1, 0, 0, 0]],
    [[3, 1], 8, 2, [6, 2]],
    [[1, 0], 3, 2, [3, 0]],
    [[1, 1, 1], 4, 3, [2, 1, 1]],
  ] as const)('%j: %i rows over %i devices are %j', (split, rows, devices, expected) => {
    expect(deviceRows(split, rows, devices)).toEqual(expected);
  });

  it('chunks keep the rest for the last', () => expect(chunkSizes(10, 3)).toEqual([4, 4, 2]));
});

describe('readSplit', () => {
  it('copies weights', () => {
    const weights = [1, 2];
    const split = readSplit(weights, 2);
    weights[0] = 9;
    expect(split).toEqual([1, 2]);
  });

  it.each([['even'], [[1]], [[0, 0]], [[1, -1]], [[1, Number.NaN]], [2], [null]])('refuses %j', (given) => {
    expect(() => readSplit(given, 2)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });
});
