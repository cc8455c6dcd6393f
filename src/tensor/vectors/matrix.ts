/** Vectors as the rows of a matrix. */

/** Rows in C order. */
export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float32Array;
}
