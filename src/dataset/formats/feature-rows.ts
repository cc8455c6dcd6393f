/** What every writer of feature files takes and does. */
import type { FeatureColumn } from '../../tensor/feature-column.js';
import type { Tensor } from '../../tensor/tensor.js';

/** A file format of features; also the ending of its files. */
export type FeatureFormat = 'npy' | 'arrow' | 'parquet' | 'jsonl';

/** Consecutive rows of a feature. */
export interface FeatureRows {
  /** `[rows, ...dims]`; it may be changed once `append` has settled. */
  readonly tensor: Tensor;
  /** Row number of the first one, over all shards. */
  readonly firstRow: number;
  /** Path of each row's input; null for one given as bytes. */
  readonly paths: readonly (string | null)[];
}

/** A feature file under way: it appears under its name when it is finished. All methods may throw `OUTPUT_UNWRITABLE`. */
export interface FeatureWriter {
  /** Writes rows, or keeps them until there are enough to write; at most some megabytes, or one row. */
  append(rows: FeatureRows): Promise<void>;
  /** Completes the file; returns its number of rows. */
  finish(): Promise<number>;
  /** Removes what was written. */
  discard(): Promise<void>;
}

/** What the formats with room for notes say of their rows, which they hold flattened. */
export function factsOf({ key, dtype, dims }: FeatureColumn): Readonly<Record<string, string>> {
  return { 'tapir.key': key, 'tapir.dtype': dtype, 'tapir.shape': JSON.stringify(dims) };
}
