/** Labels of a dataset's rows, from its paths, a table, or its metadata. */
import type { Dataset } from '../files/dataset.js';
import { invalidOption, show } from '../../base/checks.js';
import { groupBy } from '../../base/group-by.js';
import { counted } from '../../base/printable.js';
import { nameOfUrl } from '../../base/url-names.js';
import type { RowSet } from '../../base/row-set.js';
import { nameAt, readInputGroups } from '../files/input-groups.js';
import { countRows } from './live-rows.js';
import { compareBytes } from '../sources/folders/list-folder.js';
import { readColumnLabels, readTableLabels, type LabelledInput } from './label-tables.js';

/**
 * Where labels come from. `by-folder` is the first folder of each path, `by-last-folder` the folder that holds the image. `column:NAME` is
 * a column of the dataset's metadata, or one that was saved on its page. A `.csv`, `.tsv` or `.parquet` file has the columns `path` and
 * `label`. A map goes from paths to labels.
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
 * @param among - The rows that may have a label; undefined for all.
 * @throws {@link TapirError} `OPTION_INVALID` for no such source of labels, or fewer than two classes; `SOURCE_INVALID` for a table that
 * cannot be read; `DATASET_INVALID` for a column that the metadata lacks.
 */
export async function readLabels(
  dataset: Dataset,
  given: ProbeLabels,
  option = 'labels',
  among?: RowSet,
): Promise<RowLabels> {
  const { inputs, unmet, firstPath } = await openLabels(dataset, given, option);
  const names = new NameTable();
  const ofRow = new Int32Array(countRows(dataset)).fill(NO_LABEL);
  let [unlabelled, failed] = [0, 0];
  for await (const group of inputs)
    for (const { row, label } of group) {
      if (row !== null && among?.has(row) === false) continue;
      if (row === null) failed++;
      else if (label === null) unlabelled++;
      else ofRow[row] = names.place(label);
    }
  const { classes, places } = names.sorted();
  for (const [row, label] of ofRow.entries()) if (label !== NO_LABEL) ofRow[row] = places[label]!;
  const unknown = unmet.size === 0 ? [] : [describeUnmet(unmet, firstPath())];
  if (classes.length < 2) {
    const found = [describeClasses(given, classes, firstPath()), ...unknown].join('; ');
    throw invalidOption(
      option,
      `a source of at least two classes (${found})`,
      typeof given === 'string' ? given : 'a Map',
    );
  }
  const warnings = [
    ...(unlabelled > 0 ? [`${unlabelled} images have no label and are left out`] : []),
    ...(failed > 0 ? [`${counted(failed, 'image')} left out, which could not be embedded`] : []),
    ...unknown,
  ];
  return { classes, ofRow, warnings };
}

function describeClasses(given: ProbeLabels, [only]: readonly string[], path: string | null): string {
  if (only !== undefined) return `the only class is ${show(only)}`;
  const isFolder = typeof given === 'string' && Object.hasOwn(FOLDERS, given) && path !== null;
  return isFolder
    ? `the photos lie in no folder, such as ${show(path)}; give a table with the columns path and label`
    : 'no label fits an input';
}

/** Names of paths in a message. */
const NAMED = 3;

/** Names labels of photos that the dataset lacks. `path` is one that it has. */
function describeUnmet(unmet: ReadonlySet<string>, path: string | null): string {
  const named = [...unmet].slice(0, NAMED).map(show);
  const more = unmet.size > NAMED ? ', …' : '';
  const has = path === null ? '' : ` (it has ${show(path)})`;
  return `${counted(unmet.size, 'label')} for paths that the dataset does not have: ${named.join(', ')}${more}${has}`;
}

/** Whether labels are those of a table. */
function isLabelTable(given: ProbeLabels): given is string {
  return typeof given === 'string' && TABLE.test(given);
}

/** Whether a text is a source of labels. */
export function isLabelSource(text: string): boolean {
  return text.startsWith(COLUMN) || Object.hasOwn(FOLDERS, text) || isLabelTable(text);
}

/** An open source of labels. */
interface OpenLabels {
  /** A row group at a time. */
  readonly inputs: AsyncIterable<readonly LabelledInput[]>;
  /** Paths of a table that no input had so far. */
  readonly unmet: ReadonlySet<string>;
  /** The first path of the inputs, once they are read; null without one. */
  readonly firstPath: () => string | null;
}

/** Opens a source of labels. */
export async function openLabels(dataset: Dataset, given: ProbeLabels, option: string): Promise<OpenLabels> {
  const unmet = new Set<string>();
  let first: string | null = null;
  const firstPath = (): string | null => first;
  const ofPaths = (labelOf: (path: string) => string | undefined): OpenLabels['inputs'] =>
    labelPaths(dataset, (path) => {
      first ??= path;
      return labelOf(path);
    });
  if (typeof given === 'string' && given.startsWith(COLUMN))
    return { inputs: readColumnLabels(dataset, given.slice(COLUMN.length)), unmet, firstPath };
  if (typeof given === 'string' && Object.hasOwn(FOLDERS, given)) {
    const place = FOLDERS[given as keyof typeof FOLDERS];
    const folderOf = (path: string): string | undefined => path.split('/').slice(0, -1).at(place);
    return { inputs: ofPaths(folderOf), unmet, firstPath };
  }
  const isTable = isLabelTable(given);
  const listed: unknown = isTable ? await readTableLabels(given) : given;
  if (!(listed instanceof Map)) throw invalidOption(option, EXPECTED, given);
  for (const path of listed.keys()) unmet.add(String(path));
  const urls = urlsByName(listed as ReadonlyMap<string, string>);
  const labelOf = (path: string): string | undefined => {
    const given = listed.has(path) ? [path] : (urls.get(path) ?? []);
    for (const one of given) unmet.delete(one);
    const labels = new Set(given.map((one) => listed.get(one) as string));
    return labels.size === 1 ? [...labels][0] : undefined;
  };
  return { inputs: ofPaths(labelOf), unmet, firstPath };
}

/** URLs of a table by the names of their photos: a table may list them as they are fetched. */
function urlsByName(listed: ReadonlyMap<string, string>): ReadonlyMap<string, readonly string[]> {
  const urls = [...listed.keys()].filter((path) => nameOfUrl(path) !== path);
  return groupBy(urls, nameOfUrl);
}

async function* labelPaths(
  dataset: Dataset,
  labelOf: (path: string) => string | undefined,
): AsyncGenerator<LabelledInput[]> {
  for await (const group of readInputGroups(dataset, { own: ['path'] })) {
    const inputs: LabelledInput[] = [];
    for (const [i, row] of group.rows.entries()) {
      if (group.statuses[i] === 'removed') continue;
      const path = nameAt(group, i);
      inputs.push({ row: row < 0 ? null : row, label: (path === null ? undefined : labelOf(path)) ?? null });
    }
    yield inputs;
  }
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
