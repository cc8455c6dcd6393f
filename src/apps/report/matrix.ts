/** Vectors side by side. */

/** Rows in C order. */
export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float32Array;
}
