/** The column that a feature becomes in a file or a stream of rows. */
import type { DType } from './tensor.js';

/** A feature as a column: one value of these dims per row. */
export interface FeatureColumn {
  /** The output's key; also the name of the column. */
  readonly key: string;
  readonly dtype: DType;
  /** The dims of one row. */
  readonly dims: readonly number[];
  /** The product of `dims`. */
  readonly elements: number;
}
