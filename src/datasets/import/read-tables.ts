/** Rows of Parquet tables that hold vectors. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf, TapirError, type ImageErrorCode } from '../../base/errors.js';
import { readParquetLists, type ListBlock, type ListType } from '../formats/parquet-lists.js';
import { readParquetColumns, type ParquetColumn, type ParquetGroup } from '../formats/parquet-reading.js';
import { hideSecrets, nameOfUrl } from '../../base/url-names.js';
import type { ItemColumns } from '../../photos/feeds/items/source-item.js';
import { carriedIn, toJson } from '../formats/carried-columns.js';
import { nameColumns } from '../formats/metadata.js';

/** Which columns of the tables are which. */
export interface TableColumns {
  /** The column of vectors: lists of float16, float32 or float64. */
  readonly column: string;
  /** The column that names the row: text, or integers. */
  readonly path: string;
}

/** A row: its vector, or why it has none. */
export interface VectorRow {
  /** Its number in the file. */
  readonly number: number;
  readonly file: string;
  readonly path: string;
  readonly type: ListType;
  readonly vector: ListBlock['numbers'] | null;
  /** For a row without a vector. */
  readonly error: TapirError<ImageErrorCode> | null;
  readonly columns: ItemColumns;
}

/** What the rows of `tapir embed --out -` and of the Python package say of each photo. */
const OUTCOME: readonly string[] = ['status', 'error_code', 'error_message'];

/** Makes the error for a table that cannot be imported. */
export function invalidTable(source: string, reason: string, cause?: unknown): TapirError<'SOURCE_INVALID'> {
  const message = `"${source}" cannot be imported: ${reason}`;
  return new TapirError('SOURCE_INVALID', message, { details: { source, reason }, cause });
}

/** Lists the files of a table: itself, or the Parquet files of a folder in the order of their names. Throws `SOURCE_INVALID`. */
export async function listTableFiles(table: string): Promise<readonly string[]> {
  try {
    if (!(await stat(table)).isDirectory()) return [table];
    const names = (await readdir(table)).filter((name) => /\.parquet$/i.test(name)).toSorted();
    if (names.length === 0) throw new Error('the folder holds no .parquet file');
    return names.map((name) => join(table, name));
  } catch (error) {
    throw invalidTable(table, reasonOf(error), error);
  }
}

/** Where a row is, for messages: `row 3 ("cat.jpg")`. */
export function placeOf({ number, path }: Pick<VectorRow, 'number' | 'path'>): string {
  return `row ${number} (${JSON.stringify(path)})`;
}

/**
 * Reads a table, some rows at a time.
 *
 * @throws {@link TapirError} `SOURCE_INVALID` for a table without the columns, and for a row without a name or a whole vector, naming it.
 * A row that says itself that its photo failed is a failure, not an error.
 */
export async function* readTable(file: string, { column, path }: TableColumns): AsyncGenerator<VectorRow[]> {
  let carried: readonly ParquetColumn[] = [];
  let hasOutcome = false;
  const missing = (name: string, names: readonly string[]): Error => {
    const option = name === column ? 'column' : 'path';
    return new Error(
      `it has no column "${name}"; its columns are ${names.join(', ')} (option "${option}" names another)`,
    );
  };
  const others = (columns: readonly ParquetColumn[]): readonly string[] => {
    hasOutcome = OUTCOME.every((name) => columns.some((one) => one.name === name));
    carried = carriedIn(columns, new Set([path]));
    return carried.map(({ name }) => name);
  };
  const columnsOf = (row: GroupReader): ItemColumns => {
    const listed = hasOutcome ? carried.filter(({ name }) => !OUTCOME.includes(name)) : carried;
    const texts = listed.map(({ name, type }) => [name, toJson(row.valueOf(name), type)] as const);
    return nameColumns(texts, (reason) => new Error(reason));
  };
  const groups = readParquetColumns(file, [path], { missing, others });
  try {
    const names = new GroupReader(groups);
    let number = 0;
    for await (const block of readParquetLists(file, column, missing)) {
      const rows: VectorRow[] = [];
      for (let i = 0; i + 1 < block.starts.length; i++, number++) {
        const isThere = names.next();
        if (isThere !== true && !(await isThere))
          throw new Error(`its column "${path}" ends at row ${number}`);
        const name = nameOf(names.valueOf(path));
        if (name === undefined) throw new Error(`row ${number} has no text in the column "${path}"`);
        const row = { number, path: name };
        const error = hasOutcome && names.valueOf('status') === 'error' ? failureOf(name, names) : null;
        if (!error) checkWhole(block, i, row);
        const vector = error ? null : block.numbers.subarray(block.starts[i], block.starts[i + 1]);
        const columns = columnsOf(names);
        // Fields that are named: a spread of a million rows takes seconds.
        rows.push({ number, path: name, file, type: block.type, vector, error, columns });
      }
      yield rows;
    }
    if (await names.next()) throw new Error(`its column "${column}" ends at row ${number}`);
  } catch (error) {
    throw error instanceof TapirError ? error : invalidTable(file, reasonOf(error), error);
  } finally {
    await groups.return(undefined);
  }
}

/** Walks over the rows of groups. */
class GroupReader {
  readonly #groups: AsyncGenerator<ParquetGroup>;
  #group: ParquetGroup | undefined;
  #row = -1;

  constructor(groups: AsyncGenerator<ParquetGroup>) {
    this.#groups = groups;
  }

  /** Whether there is a next row. Inside a group, the answer is no promise. */
  next(): boolean | Promise<boolean> {
    return ++this.#row < (this.#group?.rows ?? 0) || this.#nextGroup();
  }

  async #nextGroup(): Promise<boolean> {
    const next: IteratorResult<ParquetGroup> = await this.#groups.next();
    this.#group = next.done === true ? undefined : next.value;
    this.#row = 0;
    if (!this.#group) return false;
    return this.#group.rows > 0 || this.#nextGroup();
  }

  valueOf(column: string): unknown {
    return this.#group!.columns.get(column)![this.#row];
  }
}

function nameOf(value: unknown): string | undefined {
  if (typeof value === 'bigint' || Number.isInteger(value)) return String(value as bigint | number);
  return typeof value === 'string' && value !== '' ? nameOfUrl(value) : undefined;
}

function failureOf(source: string, row: GroupReader): TapirError<ImageErrorCode> {
  const textOf = (name: string, otherwise: string): string => {
    const text = row.valueOf(name);
    return typeof text === 'string' && text !== '' ? text : otherwise;
  };
  const reason = hideSecrets(textOf('error_message', 'the table does not say why'));
  // The code of another version stays what it is.
  const code = textOf('error_code', 'IMAGE_UNREADABLE') as ImageErrorCode;
  return new TapirError(code, reason, { details: { source, reason } });
}

function checkWhole(
  { starts, absent, gaps }: ListBlock,
  i: number,
  row: Parameters<typeof placeOf>[0],
): void {
  const gap = gaps.get(i);
  if (starts[i] !== starts[i + 1] && gap === undefined) return;
  const advice = 'leave such rows out of the table';
  if (absent.has(i)) throw new Error(`${placeOf(row)} has no vector; ${advice}`);
  if (gap === undefined) throw new Error(`${placeOf(row)} has an empty vector; ${advice}`);
  throw new Error(`${placeOf(row)} has a vector without its number ${gap}; ${advice}`);
}
