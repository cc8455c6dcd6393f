/** Which rows of a dataset belong to an input: the others are an older outcome of one, and no result. */
import type { Dataset } from '../../dataset/dataset.js';

/** A bit per row. */
export class LiveRows {
  readonly #bits: Uint8Array;

  constructor(rows: number) {
    this.#bits = new Uint8Array(Math.ceil(rows / 8));
  }

  has(row: number): boolean {
    return ((this.#bits[row >>> 3] ?? 0) & (1 << (row & 7))) !== 0;
  }

  add(row: number): void {
    this.#bits[row >>> 3]! |= 1 << (row & 7);
  }
}

/** Reads the metadata for the rows that are alive. */
export async function readLiveRows(dataset: Dataset): Promise<LiveRows> {
  const last = dataset.manifest.shards.at(-1);
  const live = new LiveRows(last === undefined ? 0 : last.firstRow + last.rows);
  for await (const { row } of dataset.rows()) if (row !== null) live.add(row);
  return live;
}

/** The paths of some rows: read again, so that a large dataset's paths are never in memory together. */
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
