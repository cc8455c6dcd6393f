/** Reads Arrow's IPC files, a record batch at a time. */
import { open, type FileHandle } from 'node:fs/promises';
import type * as Arrows from 'apache-arrow';
import type { Data, DataType, RecordBatch, Schema } from 'apache-arrow';
import { arrowType } from '../sinks/arrow.js';
import { datasetInvalid, datasetUnreadable } from './dataset-invalid.js';
import type { FeatureFile } from './feature-file.js';
import { unpackBits, widen } from './widen.js';

type Arrow = typeof Arrows;

/** The rows of a `.arrow` file. */
export async function* readArrowRows(file: FeatureFile): AsyncGenerator<Float32Array> {
  const arrow = await import('apache-arrow');
  let handle: FileHandle | undefined;
  try {
    handle = await open(file.path);
    const reader = await arrow.RecordBatchReader.from(handle);
    await reader.open();
    if (!reader.isFile() || !reader.isAsync()) throw datasetInvalid(file.path, 'it is no Arrow file');
    checkType(arrow, reader.schema, file);
    // Batch by batch: the reader's own iterator never ends where a damaged file has something else in a batch's place.
    for (let index = 0; index < reader.numRecordBatches; index++) {
      const batch = await reader.readRecordBatch(index);
      if (!batch || batch.numRows === 0) throw datasetInvalid(file.path, `batch ${index} holds no rows`);
      yield valuesOf(batch, file);
    }
  } catch (error) {
    throw datasetUnreadable(file.path, error);
  } finally {
    await handle?.close();
  }
}

function checkType(arrow: Arrow, schema: Schema, { path, key, dtype, dims, elements }: FeatureFile): void {
  const type: DataType | undefined = schema.fields.find(({ name }) => name === key)?.type;
  const isList = arrow.DataType.isFixedSizeList(type) && type.listSize === elements;
  const element = dims.length === 0 ? type : isList ? type.valueType : undefined;
  if (!element || !arrow.util.compareTypes(element, arrowType(arrow, dtype)))
    throw datasetInvalid(path, `it has no column "${key}" of ${dtype} [${dims.join(', ')}]`);
}

function valuesOf(batch: RecordBatch, { path, key, dtype, dims, elements }: FeatureFile): Float32Array {
  const column: Data | undefined = batch.getChild(key)?.data[0];
  const data = dims.length > 0 ? column?.children[0] : column;
  const count = batch.numRows * elements;
  if (!data || data.nullCount > 0 || data.length < count)
    throw datasetInvalid(path, `a batch holds fewer than ${count} values`);
  const values: unknown = data.values;
  if (!ArrayBuffer.isView(values)) throw datasetInvalid(path, 'a batch holds no values');
  const { buffer, byteOffset, byteLength } = values;
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  if (dtype === 'bool') return unpackBits(bytes, count);
  // Copied: the batch's buffer holds the other columns too, and the values may lie anywhere in it.
  const length = (count * byteLength) / (values as Uint8Array).length;
  if (length > byteLength) throw datasetInvalid(path, `a batch holds fewer than ${count} values`);
  return widen(dtype, bytes.slice(0, length).buffer);
}
