import { describe, expect, it } from 'vitest';
import {
  formatBytes,
  formatCount,
  formatSeconds,
  formatShareOf,
  formatValue,
} from '../../../src/base/html/numbers.js';

describe('numbers', () => {
  it('have an interval where they are shares of a count: Wilson’s, computed with Python', () => {
    expect(formatShareOf(17 / 24, 24)).toBe('70.8 % (51 to 85 %)');
    expect(formatShareOf(0.5, 10)).toBe('50.0 % (24 to 76 %)');
    expect(formatShareOf(1, 10)).toBe('100.0 % (72 to 100 %)');
    expect(formatShareOf(0.93, 50_000)).toBe('93.0 % (92.8 to 93.2 %)');
    expect(formatShareOf(Number.NaN, 0)).toBe('–');
  });

  it('read as people write them', () => {
    expect([0, 999, 1000, 1234567].map(formatCount)).toEqual([
      '0',
      '999',
      '1\u202f000',
      '1\u202f234\u202f567',
    ]);
    expect([0, 1.23456, -12345.6, 1.5e-7, 2e9, Number.NaN].map(formatValue)).toEqual([
      '0',
      '1.235',
      '−12350',
      '1.50e−7',
      '2.00e9',
      '–',
    ]);
    expect([0.04, 12.4, 75, 7300].map(formatSeconds)).toEqual(['0.0 s', '12 s', '1 min 15 s', '2 h 1 min']);
  });

  it('have bytes in decimal units, never with an exponent', () => {
    expect([0, 999, 1000, 93_900_000, 999_600_000, 5e12, 5e16].map(formatBytes)).toEqual([
      '0 bytes',
      '999 bytes',
      '1.00 kB',
      '93.9 MB',
      '1.00 GB',
      '5.00 TB',
      '50000 TB',
    ]);
  });
});
