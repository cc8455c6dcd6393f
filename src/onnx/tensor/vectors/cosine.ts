/** Cosine distances of all pairs. Neighbours and groups of near-duplicates follow from them. */
import type { Breathe } from './breathe.js';

/** Distances of all pairs: `rows × rows`, symmetric, zero on the diagonal. */
export interface Distances {
  readonly rows: number;
  /** One minus the cosine, from 0 to 2. Storing the distance, not the cosine, keeps the digits of near-duplicates in float32. */
  readonly data: Float32Array;
}

/** Rows compared with all others between two pauses: 32 rows of 2048 float64 numbers are 512 kB, which fits a core's cache. */
const TILE = 32;

/** Cosine distances of all pairs of rows, exactly. A zero vector has no direction: its distance is 0 to another one, and 1 to anything else. */
export async function cosineDistances(matrix: Matrix, breathe: Breathe): Promise<Distances> {
  const { rows, columns } = matrix;
  const { unit, isZero } = toUnitRows(matrix);
  const data = new Float32Array(rows * rows);
  const set = (i: number, j: number, cosine: number): void => {
    if (i >= rows || j >= rows || i === j) return;
    const distance = isZero[i] && isZero[j] ? 0 : Math.min(2, Math.max(0, 1 - cosine));
    data[i * rows + j] = distance;
    data[j * rows + i] = distance;
  };
  for (let tile = 0; tile < rows; tile += TILE) {
    await breathe();
    for (let j = tile; j < rows; j += 2) {
      for (let i = tile; i < Math.min(tile + TILE, j + 2); i += 4) dotBlock(unit, columns, i, j, set);
    }
  }
  return { rows, data };
}

/** The rows scaled to length 1, in float32: the directions of the vectors. */
export function toUnitLength(matrix: Matrix): Matrix {
  const { rows, columns } = matrix;
  return { rows, columns, data: Float32Array.from(toUnitRows(matrix).unit.subarray(0, rows * columns)) };
}

/** Rows of length 1 as float64, with zero rows at the end for the last block. */
function toUnitRows({ rows, columns, data }: Matrix): { unit: Float64Array; isZero: Uint8Array } {
  const unit = new Float64Array((rows + 4) * columns);
  const isZero = new Uint8Array(rows);
  for (let row = 0; row < rows; row++) {
    const start = row * columns;
    let squares = 0;
    for (let i = start; i < start + columns; i++) squares += data[i]! ** 2;
    if (squares === 0) isZero[row] = 1;
    const scale = squares > 0 ? 1 / Math.sqrt(squares) : 0;
    for (let i = start; i < start + columns; i++) unit[i] = data[i]! * scale;
  }
  return { unit, isZero };
}

/** Dot products of four rows with two: eight sums stay in registers while six numbers are read. */
function dotBlock(
  unit: Float64Array,
  columns: number,
  i: number,
  j: number,
  set: (i: number, j: number, cosine: number) => void,
): void {
  const [i0, i1, i2, i3] = [i * columns, (i + 1) * columns, (i + 2) * columns, (i + 3) * columns];
  const [j0, j1] = [j * columns, (j + 1) * columns];
  let [s00, s10, s20, s30, s01, s11, s21, s31] = [0, 0, 0, 0, 0, 0, 0, 0];
  for (let c = 0; c < columns; c++) {
    const b0 = unit[j0 + c]!;
    const b1 = unit[j1 + c]!;
    const a0 = unit[i0 + c]!;
    const a1 = unit[i1 + c]!;
    const a2 = unit[i2 + c]!;
    const a3 = unit[i3 + c]!;
    s00 += a0 * b0;
    s10 += a1 * b0;
    s20 += a2 * b0;
    s30 += a3 * b0;
    s01 += a0 * b1;
    s11 += a1 * b1;
    s21 += a2 * b1;
    s31 += a3 * b1;
  }
  set(i, j, s00);
  set(i + 1, j, s10);
  set(i + 2, j, s20);
  set(i + 3, j, s30);
  set(i, j + 1, s01);
  set(i + 1, j + 1, s11);
  set(i + 2, j + 1, s21);
  set(i + 3, j + 1, s31);
}

/** Rows in C order. */
export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float32Array;
}
