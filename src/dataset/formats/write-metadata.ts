/** The metadata of a dataset: a Parquet row per input. */
import type * as writer from 'hyparquet-writer';
import type { DatasetRow } from '../dataset.js';
import type { LoadedItem } from '../../embed/loader.js';

/** What became of an input, as it is written. */
export type MetadataRow = Omit<DatasetRow, 'status'>;

/** The row of an input that was loaded, or failed to. */
export function metadataRow(
  { path, width, height, stamp, error }: LoadedItem,
  row: number | null,
): MetadataRow {
  // The error's stack is not kept.
  const [errorCode, errorMessage] = error ? [error.code, error.details.reason] : [null, null];
  return { path, row, errorCode, errorMessage, width, height, stamp };
}

/** Number of a shard as the names of its files have it. */
export function shardDigits(number: number): string {
  return String(number).padStart(5, '0');
}

/** A shard's metadata file, relative to the dataset. */
export function metadataFile(number: number): string {
  return `metadata/metadata-${shardDigits(number)}.parquet`;
}

/** The metadata of a shard, column by column: as rows they would take ten times the memory. */
export class MetadataTable {
  readonly #paths: (string | null)[] = [];
  readonly #rows: (number | null)[] = [];
  readonly #widths: (number | null)[] = [];
  readonly #heights: (number | null)[] = [];
  readonly #sizes: (number | null)[] = [];
  readonly #times: (number | null)[] = [];
  /** By position, few as they are. */
  readonly #errors = new Map<number, Pick<MetadataRow, 'errorCode' | 'errorMessage'>>();
  readonly #hashes = new Map<number, string>();
  /** Loaded while the first batch is on its way. */
  readonly #library = loadWriter();

  get length(): number {
    return this.#paths.length;
  }

  add({ path, row, errorCode, errorMessage, width, height, stamp }: MetadataRow): void {
    if (errorCode !== null) this.#errors.set(this.length, { errorCode, errorMessage });
    if (stamp && stamp.sha256 !== null) this.#hashes.set(this.length, stamp.sha256);
    this.#sizes.push(stamp?.sizeBytes ?? null);
    this.#times.push(stamp?.modifiedMs ?? null);
    this.#paths.push(path);
    this.#rows.push(row);
    this.#widths.push(width);
    this.#heights.push(height);
  }

  /**
   * The bytes of a Parquet file; columns `path, status, row, error_code, error_message, width, height, size_bytes, modified,
   * sha256`.
   */
  async encode(): Promise<Uint8Array> {
    const { parquetWriteBuffer } = await this.#library;
    const perItem = <Value>(of: (position: number) => Value): Value[] =>
      Array.from({ length: this.length }, (_, position) => of(position));
    const errorAt = (at: number): Pick<MetadataRow, 'errorCode' | 'errorMessage'> | undefined =>
      this.#errors.get(at);
    const buffer = parquetWriteBuffer({
      columnData: [
        { name: 'path', type: 'STRING', data: this.#paths },
        { name: 'status', type: 'STRING', data: perItem((at) => (errorAt(at) ? 'error' : 'ok')) },
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
  // Told when it is used.
  loading.catch(() => undefined);
  return loading;
}

function toBigInt(value: number | null): bigint | null {
  return value === null ? null : BigInt(value);
}
