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
