/** Reads what became of the inputs of a shard, as its metadata has it. */
import type { DatasetRow } from '../dataset.js';
import { datasetInvalid, datasetUnreadable } from './dataset-invalid.js';

/** Rows read at once. */
const ROWS_AT_ONCE = 16_384;
const COLUMNS = [
  'path',
  'status',
  'row',
  'error_code',
  'error_message',
  'width',
  'height',
  'size_bytes',
  'modified',
  'sha256',
];

/**
 * The rows of a metadata file, in its order.
 *
 * @param totalRows - Rows with features of the whole dataset, if they are known: each `row` lies below.
 */
export async function* readMetadata(path: string, totalRows: number = Infinity): AsyncGenerator<DatasetRow> {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import('hyparquet');
  try {
    const file = await asyncBufferFromFile(path);
    const metadata = await parquetMetadataAsync(file);
    const count = Number(metadata.num_rows);
    for (let rowStart = 0; rowStart < count; rowStart += ROWS_AT_ONCE) {
      const rowEnd = Math.min(count, rowStart + ROWS_AT_ONCE);
      const records = await parquetReadObjects({ file, metadata, columns: COLUMNS, rowStart, rowEnd });
      for (const record of records) yield toRow(record, path, totalRows);
    }
  } catch (error) {
    throw datasetUnreadable(path, error);
  }
}

function toRow(record: Readonly<Record<string, unknown>>, path: string, totalRows: number): DatasetRow {
  const text = (name: string): string | null => {
    const value = record[name] ?? null;
    if (value === null || typeof value === 'string') return value;
    throw datasetInvalid(path, `column "${name}" holds something else than text`);
  };
  const integer = (name: string): number | null => {
    const value = record[name] ?? null;
    if (value === null) return null;
    const number = Number(value);
    if (Number.isSafeInteger(number) && number >= 0) return number;
    throw datasetInvalid(path, `column "${name}" holds something else than integers from 0`);
  };
  const sizeBytes = integer('size_bytes');
  const modified = record['modified'] ?? null;
  if (modified !== null && !(modified instanceof Date))
    throw datasetInvalid(path, 'column "modified" holds something else than times');
  const status = record['status'];
  const row = integer('row');
  if (status !== 'ok' && status !== 'error') throw datasetInvalid(path, 'a status is neither ok nor error');
  if ((status === 'ok') !== (row !== null) || (row ?? 0) > Math.max(0, totalRows - 1))
    throw datasetInvalid(path, `row ${row} of an input with status ${status} does not exist`);
  return {
    path: text('path'),
    status,
    row,
    errorCode: text('error_code'),
    errorMessage: text('error_message'),
    width: integer('width'),
    height: integer('height'),
    stamp:
      sizeBytes === null
        ? null
        : { sizeBytes, modifiedMs: modified && modified.getTime(), sha256: text('sha256') },
  };
}
