/** Rows of Parquet tables that hold vectors. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf, TapirError, type ImageErrorCode } from '../../base/errors.js';
import { readParquetLists, type ListType, type NumberList } from '../formats/parquet-lists.js';
import { readParquetRecords, type ParquetColumn } from '../formats/parquet-reading.js';
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
  /** Where it is, for messages: `row 3 ("cat.jpg")`. */
  readonly where: string;
  readonly file: string;
  readonly path: string;
  readonly type: ListType;
  readonly vector: NumberList | null;
  /** For a row without a vector. */
  readonly error: TapirError<ImageErrorCode> | null;
  readonly columns: ItemColumns;
}

/** What the rows of `tapir embed --out -` and of the Python package say of each photo. */
const OUTCOME = ['status', 'error_code', 'error_message'] as const;

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

/**
 * Reads a table, row by row.
 *
 * @throws {@link TapirError} `SOURCE_INVALID` for a table without the columns, and for a row without a name or a whole vector, naming it.
 * A row that says itself that its photo failed is a failure, not an error.
 */
export async function* readTable(file: string, { column, path }: TableColumns): AsyncGenerator<VectorRow> {
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
  const lists = readParquetLists(file, column, missing);
  try {
    let number = 0;
    for await (const record of readParquetRecords(file, [path], { missing, others })) {
      const next = await lists.next();
      if (next.done === true) throw new Error(`its column "${column}" ends at row ${number}`);
      const { type, list: vector } = next.value;
      const name = nameOf(record[path]);
      if (name === undefined) throw new Error(`row ${number} has no text in the column "${path}"`);
      const where = `row ${number++} (${JSON.stringify(name)})`;
      const error = hasOutcome && record['status'] === 'error' ? failureOf(name, record) : null;
      if (!error) checkWhole(vector, where);
      const texts = carried
        .filter((one) => !hasOutcome || !OUTCOME.includes(one.name as (typeof OUTCOME)[number]))
        .map((one) => [one.name, toJson(record[one.name], one.type)] as const);
      const columns = nameColumns(texts, (reason) => new Error(reason));
      yield { where, file, path: name, type, vector: error ? null : vector, error, columns };
    }
  } catch (error) {
    throw error instanceof TapirError ? error : invalidTable(file, reasonOf(error), error);
  } finally {
    await lists.return(undefined);
  }
}

function nameOf(value: unknown): string | undefined {
  if (typeof value === 'bigint' || Number.isInteger(value)) return String(value as bigint | number);
  return typeof value === 'string' && value !== '' ? nameOfUrl(value) : undefined;
}

function failureOf(source: string, record: Readonly<Record<string, unknown>>): TapirError<ImageErrorCode> {
  const textOf = (name: string, otherwise: string): string => {
    const text = record[name];
    return typeof text === 'string' && text !== '' ? text : otherwise;
  };
  const reason = hideSecrets(textOf('error_message', 'the table does not say why'));
  // The code of another version stays what it is.
  const code = textOf('error_code', 'IMAGE_UNREADABLE') as ImageErrorCode;
  return new TapirError(code, reason, { details: { source, reason } });
}

function checkWhole(vector: NumberList | null, where: string): void {
  const advice = 'leave such rows out of the table';
  if (vector === null) throw new Error(`${where} has no vector; ${advice}`);
  if (vector.length === 0) throw new Error(`${where} has an empty vector; ${advice}`);
  const place = vector.indexOf(undefined);
  if (place >= 0) throw new Error(`${where} has a vector without its number ${place}; ${advice}`);
}
