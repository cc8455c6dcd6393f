/** The metadata of a shard by columns: a row group at a time, and of it only the columns that a question needs. */
import type { Tile } from '../../photos/images/pixels/tile-grid.js';
import type { FileStamp } from '../../base/file-stamp.js';
import { datasetInvalid, datasetUnreadable } from '../../base/files/dataset-invalid.js';
import type { ItemColumns } from '../../photos/feeds/items/source-item.js';
import type { RowPart } from '../../photos/feeds/tried-input.js';
import { carriedIn, toJson } from './carried-columns.js';
import { readParquetColumns, type ParquetColumn, type ParquetGroup } from './parquet-reading.js';
import { PART_NAMES } from './part-columns.js';

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
  /** The number of its crop, from 0, where each crop has a row; else null. */
  readonly crop: number | null;
  /** What its tile covers, in pixels of the full picture; null for whole images. */
  readonly tile: Tile | null;
  /** The first frame of its clip, from 0, among those of the folder or file; null for images. */
  readonly clipStart: number | null;
}

/** A row of the metadata: an input with its outcome, or with `removed` if it is no longer in the source. */
export interface MetadataRow extends Omit<DatasetRow, 'status'> {
  readonly status: DatasetRow['status'] | 'removed';
  /** What the source says beside the path; left out if it says nothing. */
  readonly columns?: ItemColumns;
}

/** The columns, and their types in Parquet. */
export const COLUMNS = {
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
/** A column of every metadata file. */
export type MetadataColumn = keyof typeof COLUMNS;

const NAMES: readonly MetadataColumn[] = Object.keys(COLUMNS) as MetadataColumn[];
/** The digest of a stamp; datasets from before it was kept do not have it. */
export const DIGEST = 'content_digest';
export const OWN_NAMES: ReadonlySet<string> = new Set([...NAMES, ...PART_NAMES, DIGEST]);

/** What to read of a metadata file beside the rows and outcomes of its inputs. */
export interface MetadataReading {
  /** Its own columns. Those of parts are always read, if the file has them. */
  readonly own: readonly (MetadataColumn | typeof DIGEST)[];
  /** Whether columns of the source are read. */
  readonly withCarried?: boolean;
  /** The number of feature rows of the whole dataset, if known: each `row` must be below it. */
  readonly totalRows?: number;
}

/** All that a row says. */
export const WHOLE_ROWS: MetadataReading = { own: [...NAMES, DIGEST], withCarried: true };

/** Consecutive inputs, by columns. A value is checked when it is asked for; a column that was not read has no values. */
export class MetadataGroup {
  readonly length: number;
  /** The number of each row in the features; -1 for none. */
  readonly rows: Float64Array;
  readonly statuses: ArrayLike<MetadataRow['status']>;
  readonly #path: string;
  readonly #columns: ParquetGroup['columns'];
  readonly #carried: readonly ParquetColumn[];

  constructor(
    path: string,
    { rows, columns }: ParquetGroup,
    carried: readonly ParquetColumn[],
    totalRows: number,
  ) {
    this.length = rows;
    this.#path = path;
    this.#columns = columns;
    this.#carried = carried;
    this.rows = new Float64Array(rows);
    this.statuses = columns.get('status') as ArrayLike<MetadataRow['status']>;
    const most = Math.max(0, totalRows - 1);
    for (let i = 0; i < rows; i++) {
      const status = this.statuses[i];
      const row = this.#integerAt('row', i);
      if (status !== 'ok' && status !== 'error' && status !== 'removed')
        throw datasetInvalid(path, 'a status is neither ok, error nor removed');
      if ((status === 'ok') !== (row !== null) || (row ?? 0) > most)
        throw datasetInvalid(path, `row ${row} of an input with status ${status} does not exist`);
      this.rows[i] = row ?? -1;
    }
  }

  textAt(name: MetadataColumn | typeof DIGEST, i: number): string | null {
    const value = this.#columns.get(name)?.[i] ?? null;
    if (value === null || typeof value === 'string') return value;
    throw datasetInvalid(this.#path, `column "${name}" holds values that are not texts`);
  }

  /** What a row covers of its photo. */
  partAt(i: number): RowPart {
    const level = this.#integerAt('tile_level', i);
    const tile = level === null ? null : { level, ...this.#boxAt(i) };
    return { crop: this.#integerAt('crop', i), tile, clipStart: this.#integerAt('clip_start', i) };
  }

  /** Width and height of an image. */
  sizeAt(i: number): Pick<MetadataRow, 'width' | 'height'> {
    return { width: this.#integerAt('width', i), height: this.#integerAt('height', i) };
  }

  stampAt(i: number): FileStamp | null {
    const sizeBytes = this.#integerAt('size_bytes', i);
    const modified = this.#columns.get('modified')?.[i] ?? null;
    // A number beyond the range of dates counts as no date.
    if (modified !== null && !(modified instanceof Date && Number.isFinite(modified.getTime())))
      throw datasetInvalid(this.#path, 'column "modified" holds values that are not times');
    const digest = this.textAt(DIGEST, i);
    if (sizeBytes === null) return null;
    return {
      sizeBytes,
      modifiedMs: modified && modified.getTime(),
      sha256: this.textAt('sha256', i),
      ...(digest !== null && { digest }),
    };
  }

  /** The whole row. */
  rowAt(i: number): MetadataRow {
    const row = this.rows[i]!;
    const { crop, tile, clipStart } = this.partAt(i);
    const own = {
      path: this.textAt('path', i),
      status: this.statuses[i]!,
      row: row < 0 ? null : row,
      errorCode: this.textAt('error_code', i),
      errorMessage: this.textAt('error_message', i),
      ...this.sizeAt(i),
      crop,
      clipStart,
      tile,
      stamp: this.stampAt(i),
    };
    if (this.#carried.length === 0) return own;
    const texts = this.#carried.map(
      ({ name, type }) => [name, toJson(this.#columns.get(name)![i], type)] as const,
    );
    return { ...own, columns: new Map(texts) };
  }

  #integerAt(name: string, i: number): number | null {
    const value = this.#columns.get(name)?.[i] ?? null;
    if (value === null) return null;
    const number = Number(value);
    if (Number.isSafeInteger(number) && number >= 0) return number;
    throw datasetInvalid(this.#path, `column "${name}" holds values that are not integers from 0`);
  }

  #boxAt(i: number): Omit<Tile, 'level'> {
    const number = (name: string): number => {
      const value = this.#columns.get(name)?.[i];
      if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
      throw datasetInvalid(this.#path, `column "${name}" holds values that are not numbers from 0`);
    };
    return {
      x: number('tile_x'),
      y: number('tile_y'),
      width: number('tile_width'),
      height: number('tile_height'),
    };
  }
}

/**
 * Reads a metadata file, a row group at a time: memory holds one group of the columns that are asked for.
 *
 * @throws {@link TapirError} `DATASET_INVALID`.
 */
export async function* readMetadataGroups(
  path: string,
  { own, withCarried = false, totalRows = Infinity }: MetadataReading,
): AsyncGenerator<MetadataGroup> {
  let carried: readonly ParquetColumn[] = [];
  const others = (columns: readonly ParquetColumn[]): readonly string[] => {
    carried = withCarried ? carriedIn(columns, OWN_NAMES) : [];
    return carried.map(({ name }) => name);
  };
  const names = [...new Set<MetadataColumn>(['status', 'row', ...own.filter((name) => name !== DIGEST)])];
  const optional = own.includes(DIGEST) ? [...PART_NAMES, DIGEST] : PART_NAMES;
  try {
    for await (const group of readParquetColumns(path, names, { others, optional }))
      yield new MetadataGroup(path, group, carried, totalRows);
  } catch (error) {
    throw datasetUnreadable(path, error);
  }
}
