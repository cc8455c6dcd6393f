import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WarmSizes } from '../../../src/run/runtime/warm-sizes.js';

/** The sizes at which batches of these rows run one after the other. */
function runAll(rows: readonly number[], warm = new WarmSizes()): number[] {
  return rows.map((count) => warm.fit(count));
}

/** How often the size changes. */
function changesOf(sizes: readonly number[]): number {
  return sizes.filter((size, i) => i > 0 && size !== sizes[i - 1]).length;
}

const repeat = (times: number, rows: number): number[] => Array.from({ length: times }, () => rows);

describe('batch sizes on a GPU', () => {
  it('stay as they are for smaller batches', () => {
    expect(runAll([32, 20, 31, 16, 5, 32, 1])).toEqual([32, 32, 32, 32, 32, 32, 32]);
  });

  it('grow in half octaves', () => {
    expect(runAll([1, 2, 3, 5, 6, 7, 9, 20, 33])).toEqual([1, 2, 3, 6, 6, 8, 12, 24, 48]);
    expect(runAll([47, 48, 48, 47])).toEqual([47, 48, 48, 48]);
  });

  it('stay the same for a folder some of whose images cannot be read', () => {
    const rows = Array.from({ length: 400 }, (_, i) => (i % 7 === 0 ? 31 : 32));
    expect(changesOf(runAll(rows))).toBe(1);
  });

  it('shrink when padding has cost as much as a change', () => {
    const sizes = runAll([32, ...repeat(40, 1)]);
    expect(sizes.slice(0, 17)).toEqual(repeat(17, 32));
    expect(sizes.slice(17)).toEqual(repeat(24, 1));
    const steady = runAll([1, ...repeat(40, 100)]);
    expect(steady.slice(1)).toEqual([...repeat(19, 128), ...repeat(21, 100)]);
  });

  it('do not shrink as long as large batches come now and then', () => {
    const rows = Array.from({ length: 300 }, (_, i) => (i % 10 === 0 ? 32 : 1));
    expect(changesOf(runAll(rows))).toBe(0);
  });

  it('change rarely, whatever the batches: padding pays for each change', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 32 }), { maxLength: 400 }), (rows) => {
        const sizes = runAll(rows);
        sizes.forEach((size, i) => expect(size).toBeGreaterThanOrEqual(rows[i]!));
        const padding = sizes.reduce((sum, size, i) => sum + size - rows[i]!, 0);
        // Between two times that the size shrinks, it grows at most nine times.
        expect(changesOf(sizes)).toBeLessThanOrEqual(10 * (1 + padding / 512));
      }),
    );
  });

  it('are forgotten if they failed', () => {
    const warm = new WarmSizes();
    expect(runAll([100, 200], warm)).toEqual([100, 256]);
    warm.refuse(256, 200);
    expect(runAll([200, 201, 400, 150], warm)).toEqual([200, 201, 400, 400]);
  });
});
