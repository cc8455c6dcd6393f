/** Rows of a dataset and the inputs that they belong to. */
import type { Dataset } from '../../datasets/files/dataset.js';
import { RowSet } from '../../datasets/records/row-set.js';

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

/** Reads the paths of some rows. It reads the metadata again, so that memory never holds all paths of a large dataset. */
export async function readPaths(
  dataset: Dataset,
  rows: ReadonlySet<number>,
): Promise<ReadonlyMap<number, string | null>> {
  const paths = new Map<number, string | null>();
  if (rows.size === 0) return paths;
  for await (const { row, path } of dataset.rows()) {
    if (row === null || !rows.has(row)) continue;
    paths.set(row, path);
    if (paths.size === rows.size) break;
  }
  return paths;
}
