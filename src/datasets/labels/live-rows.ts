/** Rows of a dataset and the inputs that they belong to. */
import type { Dataset } from '../files/dataset.js';
import type { DatasetRow } from '../formats/metadata.js';
import { RowSet } from '../../base/row-set.js';

/** The number of rows in all shards. */
export function countRows({ manifest }: Dataset): number {
  const last = manifest.shards.at(-1);
  return last ? last.firstRow + last.rows : 0;
}

/** Reads the rows that belong to an input. Other rows are outdated, and no results. */
export async function readLiveRows(dataset: Dataset): Promise<RowSet> {
  const live = new RowSet();
  for await (const { row } of dataset.rows()) if (row !== null) live.add(row);
  return live;
}

/** Whether an input may have several rows: its crops, tiles or clips. */
export function hasParts({ manifest }: Dataset): boolean {
  // Opening the dataset has checked only what reading features needs.
  const { run } = manifest as Partial<Dataset['manifest']>;
  return run?.cropRows === 'each' || run?.tiles !== undefined || run?.clips !== undefined;
}

/** Reads which input each row belongs to: numbers of inputs, by the number of a row; -1 for a row that belongs to none. */
export async function readInputOfRows(dataset: Dataset): Promise<Int32Array> {
  const inputOf = new Int32Array(countRows(dataset)).fill(-1);
  const known = new Map<string, number>();
  let count = 0;
  for await (const { row, path } of dataset.rows()) {
    if (row === null) continue;
    let input = path === null ? undefined : known.get(path);
    if (input === undefined) {
      input = count++;
      if (path !== null) known.set(path, input);
    }
    inputOf[row] = input;
  }
  return inputOf;
}

/** Reads the paths of some rows. */
export async function readPaths(
  dataset: Dataset,
  rows: ReadonlySet<number>,
): Promise<ReadonlyMap<number, string | null>> {
  const places = await readPlaces(dataset, rows);
  return new Map(Array.from(places, ([row, { path }]) => [row, path]));
}

/** What a row belongs to: an image, and a part of it. */
export type RowPlace = Pick<DatasetRow, 'path' | 'crop' | 'tile' | 'clipStart'>;

/** Reads what some rows belong to. It reads the metadata again, so that memory never holds all paths of a large dataset. */
export async function readPlaces(
  dataset: Dataset,
  rows: ReadonlySet<number>,
): Promise<ReadonlyMap<number, RowPlace>> {
  const places = new Map<number, RowPlace>();
  if (rows.size === 0) return places;
  for await (const { row, path, crop, tile, clipStart } of dataset.rows()) {
    if (row === null || !rows.has(row)) continue;
    places.set(row, { path, crop, tile, clipStart });
    if (places.size === rows.size) break;
  }
  return places;
}
