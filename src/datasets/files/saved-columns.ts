/** The saved columns of a dataset on disk: read with its rows, and written when somebody saves one. */
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomically } from '../../base/atomic-file.js';
import { invalidOption } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { describeParquet } from '../formats/parquet-reading.js';
import { lockFolder } from '../../base/folder-lock.js';
import { isReservedName } from '../formats/metadata.js';
import { placeCells, SavedColumns, type RowPlace } from '../formats/saved-columns.js';
import { locateFile } from '../records/locate-file.js';
import { COLUMNS_FILE, PARTS } from './file-names.js';
import type { Manifest } from './manifest.js';

/** Where a dataset lies. */
interface DatasetPlace {
  readonly folder: string;
  readonly manifest: Pick<Manifest, 'shards'>;
}

/** A column to save. */
export interface ColumnToSave {
  readonly name: string;
  /** The rows that get a value. */
  readonly values: Iterable<readonly [row: RowPlace, value: string]>;
  /** What rows get that then have no value in the column. */
  readonly defaults: Iterable<readonly [row: RowPlace, value: string]>;
  /** Whether a column that was saved before may be changed. Without, it is refused. */
  readonly change: boolean;
}

/** Reads the columns that were saved for a dataset, or for its parts before they were merged. Throws `DATASET_INVALID`. */
export async function readSavedColumns({ folder, manifest }: DatasetPlace): Promise<SavedColumns> {
  return readTables(folder, [...tablesOfParts(manifest), COLUMNS_FILE]);
}

async function readTables(folder: string, tables: readonly string[]): Promise<SavedColumns> {
  const saved = new SavedColumns();
  for (const table of tables)
    if (existsSync(join(folder, table))) await saved.read(await locateFile(folder, table));
  return saved;
}

/** The tables of the parts that a merged dataset refers to. */
function tablesOfParts({ shards }: Pick<Manifest, 'shards'>): string[] {
  const files = shards.flatMap(({ features }) => Object.values(features).slice(0, 1));
  const parts = files.map((file) => file.split('/')).filter(([first]) => first === PARTS);
  const folders = new Set(parts.map((names) => names.slice(0, 2).join('/')));
  return [...folders].map((part) => `${part}/${COLUMNS_FILE}`);
}

/**
 * Saves a column in the table of the dataset. The metadata stays as it is.
 *
 * @returns All saved columns.
 * @throws {@link TapirError} `OPTION_INVALID` for a name or value that no column has, and for a column of the metadata;
 * `OUTPUT_EXISTS` for a saved column that may not be changed; `OUTPUT_LOCKED`; `OUTPUT_UNWRITABLE`; `DATASET_INVALID`.
 */
export async function saveColumn(
  { folder, manifest }: DatasetPlace,
  { name, values, defaults, change }: ColumnToSave,
): Promise<SavedColumns> {
  checkName(name);
  // Two pages that save at once must not lose each other's column.
  await using _lock = await lockFolder(folder);
  const saved = await readSavedColumns({ folder, manifest });
  if (isReservedName(name) || (await metadataHas(folder, manifest, name)))
    throw invalidOption('column', 'a name that the metadata of the dataset does not use', name);
  if (saved.has(name) && !change) {
    const message = `the dataset has a column "${name}" already; allow to change it, or choose another name`;
    throw new TapirError('OUTPUT_EXISTS', message, { details: { path: join(folder, COLUMNS_FILE) } });
  }
  for (const [row, value] of values) saved.set(cellsOf(row), name, checkValue(value));
  for (const [row, value] of defaults) {
    const cells = cellsOf(row);
    if (saved.get(cells, name) === undefined) saved.set(cells, name, checkValue(value));
  }
  await writeAtomically(join(folder, COLUMNS_FILE), await saved.encode());
  return saved;
}

/**
 * Removes a saved column from the table of the dataset.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a name that no saved column has, and for a column of a part that was merged;
 * `OUTPUT_LOCKED`; `OUTPUT_UNWRITABLE`; `DATASET_INVALID`.
 */
export async function removeColumn({ folder, manifest }: DatasetPlace, name: string): Promise<void> {
  await using _lock = await lockFolder(folder);
  if ((await readTables(folder, tablesOfParts(manifest))).has(name)) {
    const expected = 'a column that was saved after the parts were merged; a part has this one';
    throw invalidOption('column', expected, name);
  }
  const saved = await readTables(folder, [COLUMNS_FILE]);
  const { names } = saved;
  if (names.length === 0) throw invalidOption('column', 'left out: the dataset has no saved columns', name);
  if (!saved.has(name)) throw invalidOption('column', `a saved column: ${names.join(', ')}`, name);
  saved.delete(name);
  const path = join(folder, COLUMNS_FILE);
  if (saved.names.length === 0) await rm(path, { force: true });
  else await writeAtomically(path, await saved.encode());
}

function cellsOf(row: RowPlace): ReturnType<typeof placeCells> {
  if (row.path === null) throw invalidOption('images', 'images with a path', row.path);
  return placeCells(row);
}

async function metadataHas(
  folder: string,
  { shards }: DatasetPlace['manifest'],
  name: string,
): Promise<boolean> {
  for (const { metadata } of shards) {
    const { columns } = await describeParquet(await locateFile(folder, metadata));
    if (columns.some((column) => column.name === name)) return true;
  }
  return false;
}

/** A `=` ends the name where a column is asked for: `column:NAME=VALUE`. */
function checkName(name: string): void {
  if (/^[^\p{C}=]{1,100}$/u.test(name) && name.trim() === name) return;
  throw invalidOption('column', 'a name of 1 to 100 characters, without "=" and line breaks', name);
}

function checkValue(value: string): string {
  if (/^[^\p{C}]{1,100}$/u.test(value)) return value;
  throw invalidOption('value', 'a text of 1 to 100 characters, without line breaks', value);
}
