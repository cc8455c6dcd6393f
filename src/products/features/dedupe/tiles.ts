/** The rows of a dataset that can be compared, in tiles of equal size. */
import type { RowSet } from '../../../base/row-set.js';
import type { Dataset } from '../../../datasets/files/dataset.js';

/** Rows that are compared together. */
export interface Tile {
  /** Row numbers in the dataset, in increasing order. */
  readonly rows: Int32Array;
  /** `rows.length × D` numbers, as the dataset holds them. */
  readonly data: Float32Array;
  /** The sum of the squares of each row, in double precision. */
  readonly squares: Float64Array;
}

/** Which tiles to read. */
export interface TileRequest {
  readonly key: string;
  /** D. */
  readonly elements: number;
  /** Rows of a tile; the last one has fewer. */
  readonly tileRows: number;
  /** Rows that belong to an input. */
  readonly live: RowSet;
}

/** Rows that have no direction, and so no cosine. */
export interface SkippedRows {
  /** Rows of zeros. */
  zero: number;
  /** Rows with a NaN or an infinity. */
  notFinite: number;
}

/** Reads the tiles in order, without outdated rows and rows without a direction, so that tiles do not depend on shards. */
export async function* readTiles(
  dataset: Dataset,
  { key, elements, tileRows, live }: TileRequest,
  skipped: SkippedRows = { zero: 0, notFinite: 0 },
): AsyncGenerator<Tile> {
  let tile = createTile(tileRows, elements);
  let filled = 0;
  for await (const { firstRow, rows, data } of dataset.blocks(key, { rowsPerBlock: tileRows })) {
    for (let i = 0; i < rows; i++) {
      if (!live.has(firstRow + i)) continue;
      const row = data.subarray(i * elements, (i + 1) * elements);
      const square = dotOf(row, 0, row, 0, elements);
      if (square > 0 && square < Infinity) {
        tile.rows[filled] = firstRow + i;
        tile.data.set(row, filled * elements);
        tile.squares[filled] = square;
        filled++;
      } else if (square === 0) skipped.zero++;
      else skipped.notFinite++;
      if (filled < tileRows) continue;
      yield tile;
      tile = createTile(tileRows, elements);
      filled = 0;
    }
  }
  if (filled > 0) yield sliceTile(tile, 0, filled);
}

function createTile(rows: number, elements: number): Tile {
  return {
    rows: new Int32Array(rows),
    data: new Float32Array(rows * elements),
    squares: new Float64Array(rows),
  };
}

/** A copy of some rows of a tile. */
export function sliceTile({ rows, data, squares }: Tile, from: number, to: number): Tile {
  const elements = data.length / rows.length;
  return {
    rows: rows.slice(from, to),
    data: data.slice(from * elements, to * elements),
    squares: squares.slice(from, to),
  };
}

/** Some rows of a tile, scaled to length 1, in a new buffer. */
export function unitRows({ rows, data, squares }: Tile, wanted: Int32Array): Float32Array {
  const elements = data.length / rows.length;
  const unit = new Float32Array(wanted.length * elements);
  let to = 0;
  for (const row of wanted) {
    const scale = 1 / Math.sqrt(squares[row]!);
    for (let at = row * elements; at < (row + 1) * elements; at++) unit[to++] = data[at]! * scale;
  }
  return unit;
}

/** The cosine of two rows, in double precision: exactly 1 for equal rows, and the same in either order. */
export function cosineOf(a: Tile, i: number, b: Tile, j: number): number {
  const elements = a.data.length / a.rows.length;
  const dot = dotOf(a.data, i * elements, b.data, j * elements, elements);
  // The root of the product, not the product of roots: for equal rows it is the square itself.
  return Math.max(-1, Math.min(1, dot / Math.sqrt(a.squares[i]! * b.squares[j]!)));
}

function dotOf(a: Float32Array, atA: number, b: Float32Array, atB: number, elements: number): number {
  let sum = 0;
  for (let i = 0; i < elements; i++) sum += a[atA + i]! * b[atB + i]!;
  return sum;
}
