/** The metadata of a shard: a Parquet file with a row per input. */
import type * as writer from 'hyparquet-writer';
import type { FileStamp } from '../../base/file-stamp.js';
import { readParquetRecords } from '../../base/files/parquet-reading.js';
import { datasetInvalid, datasetUnreadable } from '../../base/files/dataset-invalid.js';

/** An input of a dataset and its outcome. */
export interface DatasetRow {
  /** As listed when it was embedded; inputs given as bytes have their position: `#0`, `#1`, … Null only if the file says so. */
  readonly path: string | null;
  readonly status: 'ok' | 'error';
  /** The number of its row in the features, over all shards; null for an error. */
  readonly row: number | null;
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
  /** Size of the image in pixels; null if it could not be read. */
  readonly width: number | null;
  readonly height: number | null;
  /** The stamp of its file when it was read; null if unknown. */
  readonly stamp: FileStamp | null;
}

/** A row of the metadata: an input with its outcome, or with `removed` if it is no longer in the source. */
export interface MetadataRow extends Omit<DatasetRow, 'status'> {
  readonly status: DatasetRow['status'] | 'removed';
}

/** The columns, and their types in Parquet. */
const COLUMNS = {
  path: 'STRING',
  status: 'STRING',
  row: 'INT64',
  error_code: 'STRING',
  error_message: 'STRING',
  width: 'INT32',
  height: 'INT32',
  size_bytes: 'INT64',
  modified: 'TIMESTAMP',
  sha256: 'STRING',
} as const;
const NAMES = Object.keys(COLUMNS) as (keyof typeof COLUMNS)[];

type Value = string | number | null;

/** The metadata of a shard under construction, column by column: row objects would take ten times the memory. */
export class MetadataTable {
  readonly #columns = NAMES.map((name) => ({ name, values: [] as Value[] }));
  /** Loads while the first batch is being embedded. */
  readonly #library = loadWriter();

  get length(): number {
    return this.#columns[0]!.values.length;
  }

  add({ path, status, row, errorCode, errorMessage, width, height, stamp }: MetadataRow): void {
    const cells: Readonly<Record<keyof typeof COLUMNS, Value>> = {
      path,
      status,
      row,
      error_code: errorCode,
      error_message: errorMessage,
      width,
      height,
      size_bytes: stamp?.sizeBytes ?? null,
      modified: stamp?.modifiedMs ?? null,
      sha256: stamp?.sha256 ?? null,
    };
    for (const { name, values } of this.#columns) values.push(cells[name]);
  }

  async encode(): Promise<Uint8Array> {
    const { parquetWriteBuffer } = await this.#library;
    const columnData = this.#columns.map(({ name, values }) => {
      const type = COLUMNS[name];
      return { name, type, data: values.map((value) => toParquet(type, value)) };
    });
    return new Uint8Array(parquetWriteBuffer({ columnData }));
  }
}

function loadWriter(): Promise<typeof writer> {
  const loading = import('hyparquet-writer');
  // encode() awaits it and throws its error.
  loading.catch(() => undefined);
  return loading;
}

function toParquet(type: string, value: Value): Value | bigint | Date {
  if (typeof value !== 'number') return value;
  if (type === 'INT64') return BigInt(value);
  return type === 'TIMESTAMP' ? new Date(value) : value;
}

/**
 * Reads the rows of a metadata file, in its order.
 *
 * @param totalRows - The number of feature rows of the whole dataset, if known: each `row` must be below it.
 * @throws {@link TapirError} `DATASET_INVALID`.
 */
export async function* readMetadata(path: string, totalRows: number = Infinity): AsyncGenerator<MetadataRow> {
  try {
    for await (const record of readParquetRecords(path, NAMES)) yield toRow(record, path, totalRows);
  } catch (error) {
    throw datasetUnreadable(path, error);
  }
}

function toRow(record: Readonly<Record<string, unknown>>, path: string, totalRows: number): MetadataRow {
  const text = (name: string): string | null => {
    const value = record[name] ?? null;
    if (value === null || typeof value === 'string') return value;
    throw datasetInvalid(path, `column "${name}" holds values that are not texts`);
  };
  const integer = (name: string): number | null => {
    const value = record[name] ?? null;
    if (value === null) return null;
    const number = Number(value);
    if (Number.isSafeInteger(number) && number >= 0) return number;
    throw datasetInvalid(path, `column "${name}" holds values that are not integers from 0`);
  };
  const sizeBytes = integer('size_bytes');
  const modified = record['modified'] ?? null;
  if (modified !== null && !(modified instanceof Date))
    throw datasetInvalid(path, 'column "modified" holds values that are not times');
  const status = record['status'];
  const row = integer('row');
  if (status !== 'ok' && status !== 'error' && status !== 'removed')
    throw datasetInvalid(path, 'a status is neither ok, error nor removed');
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
