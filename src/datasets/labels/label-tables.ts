/** Labels in tables: CSV, TSV and Parquet files, and the metadata of a dataset. */
import { extname } from 'node:path';
import { isTapirError, TapirError } from '../../base/errors.js';
import type { Dataset } from '../files/dataset.js';
import { readParquetColumns, readParquetRecords } from '../formats/parquet-reading.js';
import { datasetUnreadable } from '../../base/files/dataset-invalid.js';
import { readSavedColumns } from '../files/saved-columns.js';
import { PART_NAMES } from '../formats/part-columns.js';
import { locateFile } from '../records/locate-file.js';
import { asInvalidSource, missingColumn, SourceFault } from '../sources/items/source-errors.js';
import { readTableRows } from '../sources/lists/table-rows.js';

const PATH = 'path';
const LABEL = 'label';

/**
 * Reads a table with the columns `path` and `label`.
 *
 * @returns The label of each path that has one. Integers and booleans become text.
 * @throws {@link TapirError} `SOURCE_INVALID` for a table that cannot be read, lacks a column, or labels a path twice in different ways.
 */
export async function readTableLabels(file: string): Promise<Map<string, string>> {
  const labels = new Map<string, string>();
  try {
    for await (const [path, label] of pairsOf(file)) {
      const before = labels.get(path);
      if (before !== undefined && before !== label)
        throw new SourceFault(`it labels "${path}" both "${before}" and "${label}"`);
      labels.set(path, label);
    }
  } catch (error) {
    throw asInvalidLabels(file, error);
  }
  return labels;
}

/** The errors of sources are about images to embed: these are about labels. */
function asInvalidLabels(file: string, error: unknown): Error {
  const found = asInvalidSource(file, error);
  if (!isTapirError(found, 'SOURCE_INVALID')) return found;
  const { details, cause } = found;
  const message = `"${file}" cannot be read as labels: ${details.reason}`;
  return new TapirError('SOURCE_INVALID', message, { details, cause });
}

function missingOfLabels(column: string, names: readonly string[]): SourceFault {
  return missingColumn(column, names, `a table of labels has the columns ${PATH} and ${LABEL}`);
}

function pairsOf(file: string): AsyncIterable<readonly [path: string, label: string]> {
  const extension = extname(file).toLowerCase();
  return extension === '.parquet' ? parquetPairs(file) : tablePairs(file, extension === '.csv' ? ',' : '\t');
}

async function* tablePairs(file: string, delimiter: ',' | '\t'): AsyncGenerator<readonly [string, string]> {
  const reading = { mayBeEmpty: LABEL, missing: missingOfLabels };
  for await (const { asked } of readTableRows(file, [PATH, LABEL], delimiter, reading))
    if (asked[1] !== '') yield asked as unknown as readonly [string, string];
}

async function* parquetPairs(file: string): AsyncGenerator<readonly [string, string]> {
  let number = 0;
  for await (const record of readParquetRecords(file, [PATH, LABEL], { missing: missingOfLabels })) {
    number++;
    const path = record[PATH];
    const label = textOf(record[LABEL]);
    if (typeof path !== 'string' || path === '') throw new SourceFault(`row ${number} has no path`);
    if (label !== null) yield [path, label];
  }
}

/** An input of a dataset, with its label. */
export interface LabelledInput {
  readonly row: number | null;
  /** Null for an empty cell. */
  readonly label: string | null;
}

/**
 * Reads a column of a dataset: of the metadata or of the embedded list, one that you added to the Parquet files, or one that was saved on
 * the dataset's page.
 *
 * @returns The inputs of a row group at a time.
 * @throws {@link TapirError} `DATASET_INVALID` for a dataset without the column, naming those that there are.
 */
export async function* readColumnLabels(
  { folder, manifest }: Dataset,
  column: string,
): AsyncGenerator<LabelledInput[]> {
  const saved = await readSavedColumns({ folder, manifest });
  const isSaved = saved.has(column);
  const columns = ['row', 'status', ...(isSaved ? ['path'] : [column])];
  const optional = isSaved ? [column, ...PART_NAMES] : [];
  for (const { metadata } of manifest.shards) {
    const path = await locateFile(folder, metadata);
    const missing = (name: string, names: readonly string[]): Error => {
      const reason = `it has no column "${name}"; its columns are ${[...names, ...saved.names].join(', ')}`;
      const message = `the dataset "${folder}" cannot be asked: ${reason}`;
      return new TapirError('DATASET_INVALID', message, { details: { path, reason } });
    };
    try {
      for await (const group of readParquetColumns(path, columns, { missing, optional })) {
        const [rows, statuses, values] = ['row', 'status', column].map((name) => group.columns.get(name));
        const cellsOf = (i: number) =>
          Object.fromEntries([...group.columns].map(([name, ofGroup]) => [name, ofGroup[i]]));
        const inputs: LabelledInput[] = [];
        for (let i = 0; i < group.rows; i++) {
          if (statuses![i] === 'removed') continue;
          const row = rows![i] ?? null;
          const value = values?.[i] ?? (isSaved ? saved.get(cellsOf(i), column) : null);
          inputs.push({ row: row === null ? null : Number(row), label: textOf(value) });
        }
        yield inputs;
      }
    } catch (error) {
      throw datasetUnreadable(path, error);
    }
  }
}

/** A cell as the name of a class; null for an empty one. */
export function textOf(value: unknown): string | null {
  if (value === null || value === undefined || value === '') return null;
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object'
    ? JSON.stringify(value)
    : String(value as string | number | bigint | boolean);
}
