/** The metadata of a shard: a Parquet file with a row per input. */
import type * as writer from 'hyparquet-writer';
import type { FileStamp } from '../../base/file-stamp.js';
import { PARQUET_READING } from '../../base/files/parquet-reading.js';
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

/** The number of rows that are read at once. */
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

/** The metadata of a shard under construction, column by column: row objects would take ten times the memory. */
export class MetadataTable {
  readonly #paths: (string | null)[] = [];
  readonly #statuses: MetadataRow['status'][] = [];
  readonly #rows: (number | null)[] = [];
  readonly #widths: (number | null)[] = [];
  readonly #heights: (number | null)[] = [];
  readonly #sizes: (number | null)[] = [];
  readonly #times: (number | null)[] = [];
  /** By position, because few inputs have one. */
  readonly #errors = new Map<number, Pick<MetadataRow, 'errorCode' | 'errorMessage'>>();
  readonly #hashes = new Map<number, string>();
  /** Loads while the first batch is being embedded. */
  readonly #library = loadWriter();

  get length(): number {
    return this.#paths.length;
  }

  add({ path, status, row, errorCode, errorMessage, width, height, stamp }: MetadataRow): void {
    if (errorCode !== null) this.#errors.set(this.length, { errorCode, errorMessage });
    if (stamp && stamp.sha256 !== null) this.#hashes.set(this.length, stamp.sha256);
    this.#sizes.push(stamp?.sizeBytes ?? null);
    this.#times.push(stamp?.modifiedMs ?? null);
    this.#paths.push(path);
    this.#statuses.push(status);
    this.#rows.push(row);
    this.#widths.push(width);
    this.#heights.push(height);
  }

  /** Encodes the table as a Parquet file. */
  async encode(): Promise<Uint8Array> {
    const { parquetWriteBuffer } = await this.#library;
    const perItem = <Value>(of: (position: number) => Value): Value[] =>
      Array.from({ length: this.length }, (_, position) => of(position));
    const errorAt = (at: number): Pick<MetadataRow, 'errorCode' | 'errorMessage'> | undefined =>
      this.#errors.get(at);
    const buffer = parquetWriteBuffer({
      columnData: [
        { name: 'path', type: 'STRING', data: this.#paths },
        { name: 'status', type: 'STRING', data: this.#statuses },
        { name: 'row', type: 'INT64', data: this.#rows.map(toBigInt) },
        { name: 'error_code', type: 'STRING', data: perItem((at) => errorAt(at)?.errorCode ?? null) },
        { name: 'error_message', type: 'STRING', data: perItem((at) => errorAt(at)?.errorMessage ?? null) },
        { name: 'width', type: 'INT32', data: this.#widths },
        { name: 'height', type: 'INT32', data: this.#heights },
        { name: 'size_bytes', type: 'INT64', data: this.#sizes.map(toBigInt) },
        {
          name: 'modified',
          type: 'TIMESTAMP',
          data: this.#times.map((time) => (time === null ? null : new Date(time))),
        },
        { name: 'sha256', type: 'STRING', data: perItem((at) => this.#hashes.get(at) ?? null) },
      ],
    });
    return new Uint8Array(buffer);
  }
}

function loadWriter(): Promise<typeof writer> {
  const loading = import('hyparquet-writer');
  // encode() awaits it and throws its error.
  loading.catch(() => undefined);
  return loading;
}

function toBigInt(value: number | null): bigint | null {
  return value === null ? null : BigInt(value);
}

/**
 * Reads the rows of a metadata file, in its order.
 *
 * @param totalRows - The number of feature rows of the whole dataset, if known: each `row` must be below it.
 * @throws {@link TapirError} `DATASET_INVALID`.
 */
export async function* readMetadata(path: string, totalRows: number = Infinity): AsyncGenerator<MetadataRow> {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import('hyparquet');
  try {
    const file = await asyncBufferFromFile(path);
    const metadata = await parquetMetadataAsync(file);
    const count = Number(metadata.num_rows);
    for (let rowStart = 0; rowStart < count; rowStart += ROWS_AT_ONCE) {
      const rowEnd = Math.min(count, rowStart + ROWS_AT_ONCE);
      const records = await parquetReadObjects({
        file,
        metadata,
        columns: COLUMNS,
        ...PARQUET_READING,
        rowStart,
        rowEnd,
      });
      for (const record of records) yield toRow(record, path, totalRows);
    }
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
