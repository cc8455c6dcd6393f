/** The metadata of a dataset: a Parquet row per input. */
import type { LoadedItem } from '../loader.js';

/** What became of an input. */
export interface MetadataRow {
  readonly path: string | null;
  readonly status: 'ok' | 'error';
  /** Row in the features, over all shards; null for an error. */
  readonly row: number | null;
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
  readonly width: number | null;
  readonly height: number | null;
}

/** The row of an item. */
export function describeItem(item: LoadedItem, row: number | null): MetadataRow {
  return {
    path: item.path,
    status: item.error ? 'error' : 'ok',
    row,
    errorCode: item.error?.code ?? null,
    errorMessage: item.error?.details.reason ?? null,
    width: item.width,
    height: item.height,
  };
}

/** Rows as the bytes of a Parquet file; columns `path, status, row, error_code, error_message, width, height`. */
export async function encodeMetadata(rows: readonly MetadataRow[]): Promise<Uint8Array> {
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  const buffer = parquetWriteBuffer({
    columnData: [
      { name: 'path', type: 'STRING', data: rows.map((row) => row.path) },
      { name: 'status', type: 'STRING', data: rows.map((row) => row.status) },
      { name: 'row', type: 'INT64', data: rows.map((row) => (row.row === null ? null : BigInt(row.row))) },
      { name: 'error_code', type: 'STRING', data: rows.map((row) => row.errorCode) },
      { name: 'error_message', type: 'STRING', data: rows.map((row) => row.errorMessage) },
      { name: 'width', type: 'INT32', data: rows.map((row) => row.width) },
      { name: 'height', type: 'INT32', data: rows.map((row) => row.height) },
    ],
  });
  return new Uint8Array(buffer);
}
