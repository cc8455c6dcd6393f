import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RowStage, type RowGroup } from '../../../src/datasets/formats/row-stage.js';
import type { Tensor } from '../../../src/onnx/tensor/tensor.js';

/** Rows of two bytes that count up from a row number. */
function rowsFrom(firstRow: number, rows: number): { tensor: Tensor; firstRow: number; paths: string[] } {
  const data = Uint16Array.from({ length: rows }, (_, i) => firstRow + i);
  const paths = Array.from({ length: rows }, (_, i) => `${firstRow + i}.jpg`);
  return { tensor: { dtype: 'uint16', dims: [rows], data }, firstRow, paths };
}

/** Views are valid only during the call: copies. */
function collecting(groups: RowGroup[]) {
  return async (group: RowGroup): Promise<void> => {
    groups.push({ ...group, values: group.values.slice() });
  };
}

describe('RowStage', () => {
  it('gives every row once, in groups of the size, whatever is appended at once', async () => {
    const appends = fc.array(fc.integer({ min: 0, max: 12 }), { maxLength: 10 });
    await fc.assert(
      fc.asyncProperty(appends, fc.integer({ min: 1, max: 5 }), async (sizes, rowsPerGroup) => {
        const groups: RowGroup[] = [];
        const stage = new RowStage(2, 2 * rowsPerGroup + 1, collecting(groups));
        let row = 0;
        for (const size of sizes) {
          await stage.append(rowsFrom(row, size));
          row += size;
        }
        await stage.flush();
        const all = [...Array(row).keys()];
        expect(groups.flatMap(({ rowNumbers }) => [...rowNumbers].map(Number))).toEqual(all);
        expect(groups.flatMap(({ paths }) => paths)).toEqual(all.map((number) => `${number}.jpg`));
        expect(groups.flatMap(({ values }) => [...new Uint16Array(values.buffer)])).toEqual(all);
        expect(groups.slice(0, -1).every(({ rows }) => rows === rowsPerGroup)).toBe(true);
      }),
    );
  });

  it('does not copy rows that fill a group', async () => {
    const rows = rowsFrom(0, 4);
    const buffers: ArrayBufferLike[] = [];
    const stage = new RowStage(2, 4, async ({ values }) => void buffers.push(values.buffer));
    await stage.append(rows);
    expect(buffers).toEqual([rows.tensor.data, rows.tensor.data].map((data) => (data as Uint16Array).buffer));
  });

  it('bounds the rows of a group, and holds at least one', async () => {
    const groups: RowGroup[] = [];
    const empty = new RowStage(0, 2 ** 20, collecting(groups));
    await empty.append({
      tensor: { dtype: 'uint8', dims: [70_000, 0], data: new Uint8Array() },
      firstRow: 0,
      paths: [],
    });
    await empty.flush();
    expect(groups.map(({ rows }) => rows)).toEqual([65_536, 70_000 - 65_536]);
    groups.length = 0;
    await new RowStage(2, 1, collecting(groups)).append(rowsFrom(0, 2));
    expect(groups.map(({ rows }) => rows)).toEqual([1, 1]);
  });
});
