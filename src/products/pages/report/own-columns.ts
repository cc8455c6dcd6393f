/** The columns of a dataset on its page: those of its list, and those that are saved there from a selection. */
import { placeCells } from '../../../datasets/formats/saved-columns.js';
import { saveColumn } from '../../../datasets/files/saved-columns.js';
import { textOf } from '../../../datasets/labels/label-tables.js';
import { checkInteger, invalidOption } from '../../../base/checks.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import { encodeNumbers } from '../../../base/html/html.js';
import type { SampledImage } from './collect/collect-inputs.js';
import { classColumn, MAX_NAMES } from './page-data.js';
import type { PageColumn } from './page/data.js';

/** The most columns that the page shows without being asked. */
const MOST_COLUMNS = 12;
const MISSING = '(no value)';

/** The columns by name that fit the page, and a note about those that do not. */
interface OwnColumns {
  readonly columns: ReadonlyMap<string, PageColumn>;
  readonly notes: readonly string[];
}

/**
 * The columns of the images that a map can show: a few classes, or numbers.
 *
 * @param shown - The names of columns that the page has anyway.
 */
export function readOwnColumns(images: readonly SampledImage[], shown: ReadonlySet<string>): OwnColumns {
  const names = new Set<string>();
  for (const { columns } of images) for (const name in columns) names.add(name);
  const columns = new Map<string, PageColumn>();
  const left: string[] = [];
  for (const name of names) {
    const column = shown.has(name) ? undefined : describeColumn(name, images);
    if (column && columns.size < MOST_COLUMNS) columns.set(name, column);
    else if (column) left.push(name);
  }
  const notes = left.length === 0 ? [] : [`${left.length} more columns: --colour-by column:NAME shows one.`];
  return { columns, notes };
}

/** Undefined for a column of one value, and of many that are no numbers. */
function describeColumn(name: string, images: readonly SampledImage[]): PageColumn | undefined {
  const values = images.map(({ columns }) => columns[name] ?? null);
  const labels = values.map(textOf);
  const count = new Set(labels).size;
  if (count < 2) return undefined;
  if (count <= MAX_NAMES) return classColumn({ name, labels, missing: MISSING });
  const isNumber = values.every((value) => value === null || ['number', 'bigint'].includes(typeof value));
  if (!isNumber) return undefined;
  const numbers = Float32Array.from(values, (value) => (value === null ? Number.NaN : Number(value)));
  return { name, values: encodeNumbers(numbers) };
}

/** A selection to save as a column. */
export interface SelectionToSave {
  readonly name: string;
  /** The value of the images that are selected. */
  readonly value: string;
  /** The value of the other images on the map that have none; empty for no value. */
  readonly others: string;
  /** Whether a column that was saved before may be changed. */
  readonly change: boolean;
}

/**
 * Saves a selection as a column of the dataset, and returns it for the page. Images that are not on the map get no value.
 *
 * @param places - The selected images, by their places on the map.
 * @throws {@link TapirError} as {@link saveColumn} does; `OPTION_INVALID` for no images, or images that the map does not have.
 */
export async function saveSelection(
  dataset: Dataset,
  images: readonly SampledImage[],
  places: unknown,
  { name, value, others, change }: SelectionToSave,
): Promise<PageColumn> {
  if (!Array.isArray(places) || places.length === 0)
    throw invalidOption('images', 'a selection of at least one image', places);
  const chosen = new Set(places.map((place) => checkInteger('images', place, 0, images.length - 1)));
  const rest = others === '' ? [] : images.filter((_, place) => !chosen.has(place));
  const saved = await saveColumn(dataset, {
    name,
    values: [...chosen].map((place) => [images[place]!, value] as const),
    defaults: rest.map((image) => [image, others] as const),
    change,
  });
  const labels = images.map((image) => textOf(saved.get(placeCells(image), name)));
  return classColumn({ name, labels, missing: MISSING });
}
