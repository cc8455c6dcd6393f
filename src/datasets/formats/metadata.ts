/** The metadata of a shard: a Parquet file with a row per input. */
import type * as writer from 'hyparquet-writer';
import type { Tile } from '../../photos/images/pixels/tile-grid.js';
import type { FileStamp } from '../../base/file-stamp.js';
import { describeParquet, readParquetRecords, type ParquetColumn } from './parquet-reading.js';
import { datasetInvalid, datasetUnreadable } from '../../base/files/dataset-invalid.js';
import { hideSecretsOfJson } from '../../base/url-names.js';
import type { ItemColumns } from '../../photos/feeds/items/source-item.js';
import { carriedIn, encodeCarried, kindsOf, toJson, widest, type ColumnKinds } from './carried-columns.js';
import { PART_NAMES, partColumns, partValues, type PartKind } from './part-columns.js';

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
/** The digest of a stamp; datasets from before it was kept do not have it. */
const DIGEST = 'content_digest';
const OPTIONAL = [...PART_NAMES, DIGEST];
const OWN_NAMES: ReadonlySet<string> = new Set([...NAMES, ...OPTIONAL]);
/** Names that a row of a dataset has itself, in the metadata or in JavaScript. */
const RESERVED: ReadonlySet<string> = new Set([
  ...OWN_NAMES,
  'errorCode',
  'errorMessage',
  'stamp',
  'tile',
  'clipStart',
  'vector',
]);

/** Whether a row of a dataset has a field of this name itself. */
export function isReservedName(name: string): boolean {
  return RESERVED.has(name);
}

/**
 * Names what a source says about an image as the metadata does: names that a row has itself are prefixed with `source_`. URLs lose their credentials.
 *
 * @param refuse - Makes the error for two columns of one name.
 */
export function nameColumns(
  fields: Iterable<readonly [name: string, text: string]>,
  refuse: (reason: string) => Error,
): ItemColumns {
  const columns = new Map<string, string>();
  for (const [given, text] of fields) {
    const name = isReservedName(given) ? `source_${given}` : given;
    if (columns.has(name)) throw refuse(`it has two columns "${name}"; rename one of them`);
    columns.set(name, hideSecretsOfJson(text));
  }
  return columns;
}

type Value = string | number | null;

/** The metadata of a shard under construction, column by column: row objects would take ten times the memory. */
export class MetadataTable {
  readonly #columns: readonly { readonly name: string; readonly type: string; readonly values: Value[] }[];
  /** Texts of JSON. A column may end before the last row. */
  readonly #carried = new Map<string, string[]>();
  /** Loads while the first batch is being embedded. */
  readonly #library = loadWriter();

  constructor(parts?: PartKind) {
    const types: readonly (readonly [string, string])[] = [
      ...Object.entries(COLUMNS),
      [DIGEST, 'STRING'],
      ...partColumns(parts),
    ];
    this.#columns = types.map(([name, type]) => ({ name, type, values: [] }));
  }

  get length(): number {
    return this.#columns[0]!.values.length;
  }

  /** The columns that the rows carry. */
  get kinds(): ColumnKinds {
    return new Map([...this.#carried].map(([name, texts]) => [name, widest(texts)]));
  }

  add(added: MetadataRow): void {
    const { path, status, row, errorCode, errorMessage, width, height, stamp } = added;
    for (const [name, text] of added.columns ?? []) {
      const texts = this.#carried.get(name) ?? [];
      while (texts.length < this.length) texts.push('null');
      texts.push(text);
      this.#carried.set(name, texts);
    }
    const cells: Readonly<Record<string, Value>> = {
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
      [DIGEST]: stamp?.digest ?? null,
      ...partValues(added),
    };
    for (const { name, values } of this.#columns) values.push(cells[name]!);
  }

  /** @param kinds - The columns that the file carries: those of the rows, or more, or wider ones. */
  async encode(kinds: ColumnKinds = this.kinds): Promise<Uint8Array> {
    const { parquetWriteBuffer } = await this.#library;
    const own = this.#columns.map(({ name, type, values }) => ({
      name,
      type: type as writer.BasicType,
      data: values.map((value) => toParquet(type, value)),
    }));
    const carried = [...kinds].map(([name, kind]) => {
      const texts = this.#carried.get(name) ?? [];
      const all = Array.from({ length: this.length }, (_, row) => texts[row] ?? 'null');
      return encodeCarried(name, kind ?? 'text', all);
    });
    return new Uint8Array(parquetWriteBuffer({ columnData: [...own, ...carried] }));
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
  let carried: readonly ParquetColumn[] = [];
  const others = (columns: readonly ParquetColumn[]): readonly string[] => {
    carried = carriedIn(columns, OWN_NAMES);
    return carried.map(({ name }) => name);
  };
  try {
    for await (const record of readParquetRecords(path, NAMES, { others, optional: OPTIONAL })) {
      const row = toRow(record, path, totalRows);
      const texts = carried.map(({ name, type }) => [name, toJson(record[name], type)] as const);
      yield carried.length === 0 ? row : { ...row, columns: new Map(texts) };
    }
  } catch (error) {
    throw datasetUnreadable(path, error);
  }
}

/** Reads which columns a metadata file carries. Throws `DATASET_INVALID`. */
export async function readColumnKinds(path: string): Promise<ColumnKinds> {
  try {
    return kindsOf(carriedIn((await describeParquet(path)).columns, OWN_NAMES));
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
  const number = (name: string): number => {
    const value = record[name];
    if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
    throw datasetInvalid(path, `column "${name}" holds values that are not numbers from 0`);
  };
  const level = integer('tile_level');
  const digest = text(DIGEST);
  const sizeBytes = integer('size_bytes');
  const modified = record['modified'] ?? null;
  // A number beyond the range of dates counts as no date.
  if (modified !== null && !(modified instanceof Date && Number.isFinite(modified.getTime())))
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
    crop: integer('crop'),
    clipStart: integer('clip_start'),
    tile:
      level === null
        ? null
        : {
            level,
            x: number('tile_x'),
            y: number('tile_y'),
            width: number('tile_width'),
            height: number('tile_height'),
          },
    stamp:
      sizeBytes === null
        ? null
        : {
            sizeBytes,
            modifiedMs: modified && modified.getTime(),
            sha256: text('sha256'),
            ...(digest !== null && { digest }),
          },
  };
}
