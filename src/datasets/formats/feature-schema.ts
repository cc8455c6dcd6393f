/** The schema of feature files in Arrow's terms. */
import { createStreamEncoder, featureField, type Arrow, type Schema } from './library.js';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';
import { factsOf } from './feature-format.js';

/** Columns `row`, `path` and the output's key. */
export function featureSchema(arrow: Arrow, column: FeatureColumn): Schema {
  return new arrow.Schema(
    [
      new arrow.Field('row', new arrow.Int64(), false),
      new arrow.Field('path', new arrow.Utf8(), true),
      featureField(arrow, column, false),
    ],
    new Map(Object.entries(factsOf(column))),
  );
}

/**
 * The entry of a Parquet file's metadata from which readers made of Arrow (pyarrow, Hugging Face datasets, LanceDB) know what Parquet
 * cannot say: that the lists have a fixed size.
 */
export function arrowSchemaEntry(arrow: Arrow, column: FeatureColumn): Readonly<Record<string, string>> {
  const pieces: Uint8Array[] = [];
  // A stream begins with its schema.
  createStreamEncoder(arrow, featureSchema(arrow, column), pieces);
  return { 'ARROW:schema': Buffer.concat(pieces).toString('base64') };
}
