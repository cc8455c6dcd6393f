/** Feature files in any format. */
import { checkOneOf, invalidOption } from '../../base/checks.js';
import { elementCount, type DType } from '../../tensor/tensor.js';
import { createArrowWriter } from './write-arrow.js';
import { AtomicFile } from '../../base/atomic-file.js';
import type { FeatureColumn } from '../../tensor/feature-column.js';
import type { FeatureFormat, FeatureWriter } from './feature-rows.js';
import { createJsonlWriter } from './write-jsonl.js';
import { createNpyWriter } from './write-npy.js';
import { createParquetWriter } from './write-parquet.js';

export type { FeatureFormat, FeatureWriter } from './feature-rows.js';

type CreateWriter = (file: AtomicFile, column: FeatureColumn) => Promise<FeatureWriter>;

const WRITERS: Readonly<Record<FeatureFormat, CreateWriter>> = {
  npy: createNpyWriter,
  arrow: createArrowWriter,
  parquet: createParquetWriter,
  jsonl: createJsonlWriter,
};

/** All formats that features can be written in. */
export const FEATURE_FORMATS: readonly FeatureFormat[] = Object.keys(WRITERS) as FeatureFormat[];

/**
 * Starts a feature file.
 *
 * @param path - Where it appears when it is finished; its ending is the format's name.
 * @param key - The output's key: the name of its column.
 * @param rowDims - Dims of one row.
 * @throws {@link TapirError} `OPTION_INVALID` for another format, or for strings; `OUTPUT_UNWRITABLE`.
 */
export async function createFeatureWriter(
  format: FeatureFormat,
  path: string,
  key: string,
  dtype: DType,
  rowDims: readonly number[],
): Promise<FeatureWriter> {
  const create = WRITERS[checkOneOf('format', format, FEATURE_FORMATS)];
  if (dtype === 'string') throw invalidOption('returnNodes', 'made of numeric outputs to write them', dtype);
  const file = await AtomicFile.create(path);
  try {
    return await create(file, { key, dtype, dims: rowDims, elements: elementCount(rowDims) });
  } catch (error) {
    await file.discard();
    throw error;
  }
}
