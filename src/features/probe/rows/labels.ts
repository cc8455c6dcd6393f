/** Labels of a dataset's rows, from its paths, a table, or its metadata. */
import { counted } from '../../../base/printable.js';
import { invalidOption } from '../../../base/checks.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import { countRows } from '../../search/live-rows.js';
import { readColumnLabels, readTableLabels } from './label-tables.js';

/**
 * Where labels come from: `by-folder`, the first folder of each path; `by-last-folder`, the folder that holds the image;
 * `column:NAME`, a column of the dataset's metadata; a `.csv`, `.tsv` or `.parquet` file with the columns `path` and `label`; or a map
 * from paths to labels.
 */
export type ProbeLabels = string | ReadonlyMap<string, string>;

/** The labels of a dataset's rows. */
export interface RowLabels {
  /** Names of the classes: integers by value, other names in the order of their bytes. */
  readonly classes: readonly string[];
  /** For each feature row the index of its class; {@link NO_LABEL} for a row without a label, or one that no input names. */
  readonly ofRow: Int32Array;
  /** What was left out, and why. */
  readonly warnings: readonly string[];
}

export const NO_LABEL = -1;

const COLUMN = 'column:';
const FOLDERS = { 'by-folder': 0, 'by-last-folder': -1 } as const;
const TABLE = /\.(?:csv|tsv|parquet)$/i;
const EXPECTED =
  '"by-folder", "by-last-folder", "column:NAME", a .csv, .tsv or .parquet file with columns path and label, or a Map of path → label';

/**
 * Reads the labels of a dataset's rows.
 *
 * @param option - The option that names the source, for messages.
 * @throws {@link TapirError} `OPTION_INVALID` for no such source of labels, or fewer than two classes; `SOURCE_INVALID` for a table that
 * cannot be read; `DATASET_INVALID` for a column that the metadata lacks.
 */
export async function readLabels(
  dataset: Dataset,
  given: ProbeLabels,
  option = 'labels',
): Promise<RowLabels> {
  const names = new NameTable();
  const ofRow = new Int32Array(countRows(dataset)).fill(NO_LABEL);
  const warnings =
    typeof given === 'string' && given.startsWith(COLUMN)
      ? await labelByColumn(dataset, given.slice(COLUMN.length), names, ofRow)
      : await labelByPath(dataset, await openLabels(given, option), names, ofRow);
  const { classes, places } = names.sorted();
  for (const [row, label] of ofRow.entries()) if (label !== NO_LABEL) ofRow[row] = places[label]!;
  if (classes.length < 2)
    throw invalidOption(option, 'a source of at least two classes', describeClasses(given, classes));
  return { classes, ofRow, warnings };
}

function describeClasses(given: ProbeLabels, classes: readonly string[]): string {
  const what = typeof given === 'string' ? given : 'a Map';
  const found = classes.length === 0 ? 'no label fits an input' : `the only class is "${classes[0]!}"`;
  return `${what}: ${found}`;
}

/** Gives the label of a path; undefined if it has none. */
interface PathLabels {
  readonly labelOf: (path: string) => string | undefined;
  /** The paths of a table; undefined if the labels are part of the paths. */
  readonly listed?: ReadonlyMap<string, string>;
}

async function openLabels(given: ProbeLabels, option: string): Promise<PathLabels> {
  if (typeof given === 'string' && Object.hasOwn(FOLDERS, given)) {
    const place = FOLDERS[given as keyof typeof FOLDERS];
    return { labelOf: (path) => path.split('/').slice(0, -1).at(place) };
  }
  const isTable = typeof given === 'string' && TABLE.test(given);
  const listed = isTable ? await readTableLabels(given) : given;
  if (!(listed instanceof Map)) throw invalidOption(option, EXPECTED, given);
  return { labelOf: (path) => listed.get(path) as string | undefined, listed };
}

async function labelByPath(
  dataset: Dataset,
  { labelOf, listed }: PathLabels,
  names: NameTable,
  ofRow: Int32Array,
): Promise<string[]> {
  let unlabelled = 0;
  let failed = 0;
  let used = 0;
  for await (const { path, row } of dataset.rows()) {
    const label = path === null ? undefined : labelOf(path);
    if (label !== undefined) used++;
    if (row === null) failed++;
    else if (label === undefined) unlabelled++;
    else ofRow[row] = names.place(label);
  }
  const unknown = listed ? listed.size - used : 0;
  return [
    ...leftOut(unlabelled, failed),
    ...(unknown > 0 ? [`${unknown} labels are for paths that the dataset does not have`] : []),
  ];
}

async function labelByColumn(
  dataset: Dataset,
  column: string,
  names: NameTable,
  ofRow: Int32Array,
): Promise<string[]> {
  let unlabelled = 0;
  let failed = 0;
  for await (const { row, label } of readColumnLabels(dataset, column)) {
    if (row === null) failed++;
    else if (label === null) unlabelled++;
    else ofRow[row] = names.place(label);
  }
  return leftOut(unlabelled, failed);
}

function leftOut(unlabelled: number, failed: number): string[] {
  return [
    ...(unlabelled > 0 ? [`${unlabelled} images have no label and are left out`] : []),
    ...(failed > 0 ? [`${counted(failed, 'image')} left out, which could not be embedded`] : []),
  ];
}

/** Names in the order in which they are met. */
class NameTable {
  readonly #places = new Map<string, number>();

  place(name: string): number {
    let place = this.#places.get(name);
    if (place === undefined) this.#places.set(name, (place = this.#places.size));
    return place;
  }

  /** The names in the order of classes, and where each name went. */
  sorted(): { readonly classes: readonly string[]; readonly places: readonly number[] } {
    const met = [...this.#places.keys()];
    const areIntegers = met.every((name) => /^-?\d{1,15}$/.test(name));
    const classes = met.toSorted(areIntegers ? (a, b) => Number(a) - Number(b) : compareBytes);
    const after = new Map(classes.map((name, place) => [name, place]));
    return { classes, places: met.map((name) => after.get(name)!) };
  }
}

function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
