import { describe, expect, it } from 'vitest';
import { compareBusIds } from '../../../../src/run/runtime/devices/gpu.js';

describe('PCI bus ids', () => {
  it('are ordered by number, whatever the number of digits', () => {
    const ids = ['00000000:3B:00.0', '0001:01:00.0', '0000:04:00.0', '00000000:04:00.1'];
    expect(ids.toSorted(compareBusIds)).toEqual([
      '0000:04:00.0',
      '00000000:04:00.1',
      '00000000:3B:00.0',
      '0001:01:00.0',
    ]);
    expect(compareBusIds('0000:04:00.0', '00000000:04:00.0')).toBe(0);
  });
});
