import { describe, expect, it } from 'vitest';
import { RowSet } from '../../src/base/row-set.js';

describe('RowSet', () => {
  it('has the rows that were added, however far apart', () => {
    const rows = [0, 7, 8, 65_535, 65_536, 2 ** 31, 2 ** 40 + 3];
    const set = new RowSet();
    for (const row of rows) set.add(row);
    for (const row of rows) expect([row, set.has(row)]).toEqual([row, true]);
    for (const row of [1, 9, 65_534, 65_537, 2 ** 31 + 1, 2 ** 40 + 2, 2 ** 50])
      expect([row, set.has(row)]).toEqual([row, false]);
  });
});
