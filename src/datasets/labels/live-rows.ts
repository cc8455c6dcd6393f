/** Rows of a dataset and the inputs that they belong to. */
import type { Dataset } from '../files/dataset.js';
import type { DatasetRow } from '../formats/metadata-columns.js';
import { nameAt, readInputGroups } from '../files/input-groups.js';
import { RowSet } from '../../base/row-set.js';

/** The number of rows in all shards. */
export function countRows({ manifest }: Dataset): number {
  const last = manifest.shards.at(-1);
  return last ? last.firstRow + last.rows : 0;
}

/** Reads the rows that belong to an input. Other rows are outdated, and no results. */
export async function readLiveRows(dataset: Dataset): Promise<RowSet> {
  const live = new RowSet();
  for await (const { rows } of readInputGroups(dataset, { own: [] }))
    for (const row of rows) if (row >= 0) live.add(row);
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
  for await (const group of readInputGroups(dataset, { own: ['path'] }))
    for (const [i, row] of group.rows.entries()) {
      if (row < 0) continue;
      const path = nameAt(group, i);
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

/** Reads what some rows belong to, from the shards that hold them. */
export async function readPlaces(
  dataset: Dataset,
  rows: ReadonlySet<number>,
): Promise<ReadonlyMap<number, RowPlace>> {
  const places = new Map<number, RowPlace>();
  for await (const group of readInputGroups(dataset, { own: ['path'], among: rows }))
    for (const [i, row] of group.rows.entries())
      if (rows.has(row)) places.set(row, { path: nameAt(group, i), ...group.partAt(i) });
  return places;
}
