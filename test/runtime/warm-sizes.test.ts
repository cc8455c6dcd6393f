import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WarmSizes } from '../../src/runtime/warm-sizes.js';

/** The sizes at which batches of these rows run one after the other, if all succeed. */
function runAll(rows: readonly number[], warm = new WarmSizes()): number[] {
  return rows.map((count) => {
    const size = warm.fit(count);
    warm.add(size);
    return size;
  });
}

describe('batch sizes on a GPU', () => {
  it('are padded to the next warm size, or to the next power of two', () => {
    expect(runAll([32, 20, 31, 16, 15, 5, 3, 2, 1])).toEqual([32, 32, 32, 16, 16, 8, 4, 2, 1]);
  });

  it('grow in powers of two', () => {
    expect(runAll([1, 3, 5, 6, 7, 9, 20, 33])).toEqual([1, 4, 8, 8, 8, 16, 32, 64]);
  });

  it('prefer a warm size that is no power of two', () => {
    expect(runAll([48, 40, 47, 33, 32])).toEqual([48, 48, 48, 48, 32]);
  });

  it('are a handful for a service, whatever its batches', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 32 }), { maxLength: 200 }), (rows) => {
        const changing = rows.filter((count, i) => count !== rows[i - 1]);
        const sizes = runAll([1, ...changing]);
        expect(new Set(sizes).size).toBeLessThanOrEqual(6);
        sizes.slice(1).forEach((size, i) => {
          expect(size).toBeGreaterThanOrEqual(changing[i]!);
          expect(size).toBeLessThan(2 * changing[i]!);
        });
      }),
    );
  });

  it('are not padded for a batch that always has the same rows', () => {
    const sizes = runAll([1, ...Array.from({ length: 20 }, () => 100)]);
    expect(sizes.slice(1)).toEqual([
      ...Array.from({ length: 8 }, () => 128),
      ...Array.from({ length: 12 }, () => 100),
    ]);
  });

  it('are forgotten if they failed', () => {
    const warm = new WarmSizes();
    expect(runAll([100], warm)).toEqual([100]);
    expect(warm.fit(200)).toBe(256);
    warm.refuse(256);
    warm.add(200);
    expect(runAll([200, 201, 400, 150], warm)).toEqual([200, 201, 400, 200]);
  });
});
