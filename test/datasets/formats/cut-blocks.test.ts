import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cutBlocks } from '../../../src/datasets/files/cut-blocks.js';
import type { FeatureFile } from '../../../src/datasets/formats/feature-format.js';

const ELEMENTS = 3;
const file = (rows: number, rowsPerBlock: number, elements = ELEMENTS): FeatureFile => ({
  path: 'x.npy',
  key: 'f',
  dtype: 'float32',
  dims: [elements],
  elements,
  rows,
  firstRow: 100,
  rowsPerBlock,
});

/** Rows numbered from 0, in pieces of these sizes. */
async function* pieces(sizes: readonly number[]): AsyncGenerator<Float32Array> {
  let at = 0;
  for (const rows of sizes) yield Float32Array.from({ length: rows * ELEMENTS }, () => at++);
}

async function collect(cut: ReturnType<typeof cutBlocks>) {
  const blocks = [];
  for await (const block of cut) blocks.push(block);
  return blocks;
}

describe('cutBlocks', () => {
  it('gives all rows in order, in blocks of one size, however the pieces are cut', async () => {
    const sizes = fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(sizes, fc.integer({ min: 1, max: 7 }), async (cut, rowsPerBlock) => {
        const rows = cut.reduce((sum, size) => sum + size, 0);
        const blocks = await collect(cutBlocks(file(rows, rowsPerBlock), pieces(cut)));
        expect(blocks.flatMap(({ data }) => [...data])).toEqual([...Array(rows * ELEMENTS).keys()]);
        const sizesFound = blocks.map((block) => block.rows);
        expect(sizesFound.slice(0, -1).every((size) => size === rowsPerBlock)).toBe(true);
        expect(blocks.map(({ firstRow }) => firstRow)).toEqual(
          sizesFound.map((_, at) => 100 + at * rowsPerBlock),
        );
      }),
    );
  });

  it('does not copy a piece of exactly one block', async () => {
    const piece = new Float32Array(2 * ELEMENTS);
    const [block] = await collect(
      cutBlocks(
        file(2, 2),
        (async function* () {
          yield piece;
        })(),
      ),
    );
    expect(block!.data).toBe(piece);
  });

  it('gives rows without elements as one block', async () => {
    expect(await collect(cutBlocks(file(4, 2, 0), pieces([])))).toMatchObject([{ firstRow: 100, rows: 4 }]);
  });

  it.each([
    [[2, 1], /fewer rows .*\(4\)/],
    [[2, 3], /more rows .*\(4\)/],
  ])('refuses pieces of %j rows for 4', async (sizes, message) => {
    await expect(collect(cutBlocks(file(4, 2), pieces(sizes)))).rejects.toMatchObject({
      code: 'DATASET_INVALID',
      message,
    });
  });
});
