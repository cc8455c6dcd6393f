/** The metadata of a shard: a Parquet file with a row per input. */
import type * as writer from 'hyparquet-writer';
import { describeParquet } from './parquet-reading.js';
import { datasetUnreadable } from '../../base/files/dataset-invalid.js';
import { hideSecretsOfJson } from '../../base/url-names.js';
import type { ItemColumns } from '../../photos/feeds/items/source-item.js';
import { carriedIn, encodeCarried, kindsOf, widest, type ColumnKinds } from './carried-columns.js';
import {
  COLUMNS,
  DIGEST,
  OWN_NAMES,
  WHOLE_ROWS,
  readMetadataGroups,
  type MetadataRow,
} from './metadata-columns.js';
import { partColumns, partValues, type PartKind } from './part-columns.js';

export type { DatasetRow, MetadataRow } from './metadata-columns.js';

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
  for await (const group of readMetadataGroups(path, { ...WHOLE_ROWS, totalRows }))
    for (let i = 0; i < group.length; i++) yield group.rowAt(i);
}

/** Reads which columns a metadata file carries. Throws `DATASET_INVALID`. */
export async function readColumnKinds(path: string): Promise<ColumnKinds> {
  try {
    return kindsOf(carriedIn((await describeParquet(path)).columns, OWN_NAMES));
  } catch (error) {
    throw datasetUnreadable(path, error);
  }
}
