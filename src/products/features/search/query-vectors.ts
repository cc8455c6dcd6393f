/** Inputs of a dataset as queries. */
import { partName } from '../../../photos/images/pixels/tile-grid.js';
import { invalidOption, show } from '../../../base/checks.js';
import { nameOfUrl } from '../../../base/url-names.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import { nameAt, readInputGroups } from '../../../datasets/files/input-groups.js';

/** A row of the dataset as a query. */
export interface RowQuery {
  /** The path of its input, and which part of that it is. */
  readonly name: string;
  readonly row: number;
  readonly vector: Float32Array;
}

/**
 * Reads the features of inputs, in the given order: by a path, which gives all rows of its input (tiles, crops, clips), or by a path and the
 * part that stands behind it in results.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a path that is not in the dataset, or whose input could not be embedded.
 */
export async function readRowQueries(
  dataset: Dataset,
  key: string,
  paths: readonly string[],
): Promise<RowQuery[]> {
  if (paths.length === 0) return [];
  // A URL may be given as it is fetched.
  const namesOf = (path: string): readonly string[] => [path, nameOfUrl(path, 'url'), nameOfUrl(path)];
  const asked = new Map<string, { readonly name: string; readonly row: number | null }[]>(
    paths.flatMap(namesOf).map((name) => [name, []]),
  );
  let first: string | undefined;
  for await (const group of readInputGroups(dataset, { own: ['path'] }))
    for (const [i, number] of group.rows.entries()) {
      const path = nameAt(group, i);
      if (path === null || group.statuses[i] === 'removed') continue;
      const part = partName(group.partAt(i));
      first ??= path + part;
      for (const one of part === '' ? [path] : [path, path + part])
        asked.get(one)?.push({ name: path + part, row: number < 0 ? null : number });
    }
  const rows = [...asked.values()].flat().flatMap(({ row }) => row ?? []);
  const vectors = await readRows(dataset, key, new Set(rows));
  return paths.flatMap((path) => {
    const found =
      namesOf(path)
        .map((name) => asked.get(name)!)
        .find((rows) => rows.length > 0) ?? [];
    const queries = found.flatMap(({ name, row }) => {
      const vector = row === null ? undefined : vectors.get(row);
      return row !== null && vector ? [{ name, row, vector }] : [];
    });
    if (queries.length > 0) return queries;
    if (found.length > 0) throw invalidOption('path', 'an input that could be embedded', path);
    const expected = `an input of the dataset: a path, or the name that results show${first === undefined ? '' : `, as ${show(first)}`}`;
    throw invalidOption('path', expected, path);
  });
}

async function readRows(
  dataset: Dataset,
  key: string,
  wanted: ReadonlySet<number>,
): Promise<ReadonlyMap<number, Float32Array>> {
  const vectors = new Map<number, Float32Array>();
  for await (const { firstRow, rows, data } of dataset.blocks(key)) {
    const elements = data.length / rows;
    for (const row of wanted) {
      if (row < firstRow || row >= firstRow + rows) continue;
      const at = (row - firstRow) * elements;
      vectors.set(row, data.slice(at, at + elements));
    }
    if (vectors.size === wanted.size) break;
  }
  return vectors;
}
