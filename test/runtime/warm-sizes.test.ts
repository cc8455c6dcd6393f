import { describe, expect, it } from 'vitest';
import { WarmSizes } from '../../src/runtime/warm-sizes.js';

describe('sizes that a GPU has run', () => {
  it('are used again for at most twice as many rows', () => {
    const warm = new WarmSizes();
    expect([32, 32, 20, 16, 15, 40, 3, 2, 1].map((rows) => warm.fit(rows))).toEqual([
      32, 32, 32, 32, 15, 40, 3, 3, 1,
    ]);
  });
});
