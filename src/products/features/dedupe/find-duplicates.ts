/** Near-duplicates over a whole dataset, exactly. */
import { countRows, hasParts, readInputOfRows } from '../../../datasets/labels/live-rows.js';
import { readRowsWhere, WHERE } from '../../../datasets/labels/where.js';
import { DEVICE, type Device } from '../../../run/runtime/lanes/device.js';
import { callback, positive, readOptions, signal, type Fields } from '../../../base/options.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import { RowGroups } from '../../../onnx/tensor/vectors/row-groups.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import type { Options } from '../../../base/checks.js';
import type { Progress } from '../../../base/progress.js';
import { checkDataset, chooseKey, KEY } from '../search/search-dataset.js';
import { compareRows } from './compare-rows.js';
import { describeGroups, type DuplicateGroup } from './describe-groups.js';
import type { TileRequest } from './tiles.js';

/** Options of {@link findDuplicates}. */
export interface DuplicateOptions {
  /**
   * Output key of the features to compare. You may leave it out if the dataset has one output.
   * @default undefined
   */
  readonly key: string | undefined;
  /**
   * Two rows are near-duplicates from this cosine on; above 0, at most 1.
   * @default 0.97
   */
  readonly cosine: number;
  /**
   * Only images of this label: a source as {@link trainProbe} takes its labels, `=`, and the label. `column:keep=yes`, `by-folder=sea`.
   * @default undefined, which is all images
   */
  readonly where: string | undefined;
  /**
   * Device that computes the products. Only `'auto'` falls back to the CPU.
   * @default 'cpu'
   */
  readonly device: Device;
  /**
   * Called from time to time with the number of pairs that have been compared.
   * @default undefined
   */
  readonly onProgress: ((progress: Progress) => void) | undefined;
  /**
   * Stops the search when it fires; the call rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

export const DUPLICATE_FIELDS: Fields<DuplicateOptions> = {
  key: KEY,
  cosine: positive(0.97, 'images are near-duplicates from this cosine on; above 0, at most 1', 1),
  where: WHERE,
  device: DEVICE,
  onProgress: callback(),
  signal,
};

/** The near-duplicates of a dataset. */
export interface Duplicates {
  readonly key: string;
  readonly cosine: number;
  /** Groups by their first rows. */
  readonly groups: readonly DuplicateGroup[];
  /** Rows compared, each with all others. */
  readonly compared: number;
  /** Pairs of rows: all, those whose sketches were multiplied, and those whose cosine was computed. Bounds rule out the others. */
  readonly pairs: { readonly total: number; readonly multiplied: number; readonly decided: number };
  /** Rows left out, because they have no direction: all zeros, or with a NaN or an infinity. */
  readonly skipped: { readonly zero: number; readonly notFinite: number };
}

/** Rows of a tile while groups are described. */
const FEW_ROWS = 2048;
/** Most bytes of rows that are compared from memory; as many of others are beside them. */
const CHUNK_BYTES = 512 * 2 ** 20;

/**
 * Finds the near-duplicates of a whole dataset, as comparing each row with every other one would. Rows that lie near each other are put
 * in groups, and no pair of two groups is looked at whose angle proves that none can reach the threshold. Of the other pairs, ONNX Runtime
 * multiplies sketches of 16 to 128 numbers, which bound the cosine from above. What no bound rules out is decided in double precision.
 *
 * @remarks Rows are in one group if a chain of near-duplicates connects them; so two rows of a group may be less alike than the
 * threshold. Where rows do not lie in clusters, time grows with the square of their number. Memory holds up to twice 512 MiB of features
 * with their sketches, 12 bytes a row, and the groups. The images are not opened, and nothing is changed or deleted.
 *
 * @param dataset - From {@link openDataset}.
 * @param given - See {@link DuplicateOptions}.
 * @throws {@link TapirError} `OPTION_INVALID`; `DATASET_INVALID`; `DEVICE_UNAVAILABLE`.
 *
 * @example
 * ```ts
 * import { openDataset } from 'onnx-tapir';
 * import { findDuplicates } from 'onnx-tapir/features';
 *
 * const { groups } = await findDuplicates(await openDataset('vectors'), { cosine: 0.98 });
 * for (const { best, copies } of groups) console.log(best.path, copies.length); // sea/sea-0.jpg 2
 * ```
 */
export async function findDuplicates(
  dataset: Dataset,
  given: Options<DuplicateOptions> = {},
): Promise<Duplicates> {
  checkDataset(dataset);
  const options = readOptions(DUPLICATE_FIELDS, given, 'findDuplicates');
  const { cosine, device, onProgress, signal } = options;
  const key = chooseKey(dataset, options.key);
  const elements = elementCount(dataset.manifest.features[key]!.dims);
  const totalRows = countRows(dataset);
  const most = Math.max(1, Math.floor(CHUNK_BYTES / (4 * Math.max(1, elements))));
  const tileRows = Math.max(1, Math.min(totalRows, most));
  const tiles: TileRequest = { key, elements, tileRows, live: await readRowsWhere(dataset, options.where) };
  const groups = new RowGroups(totalRows);
  const skipped = { zero: 0, notFinite: 0 };
  const total = pairsOf(totalRows);
  const onRows = (rows: number): void =>
    onProgress?.({ done: total - pairsOf(totalRows - rows), total, unit: 'pairs' });
  const inputOf = hasParts(dataset) ? await readInputOfRows(dataset) : undefined;
  const comparison = { tiles, cosine, groups, inputOf, skipped, device, onRows, signal };
  const { rows: compared, multiplied, decided } = await compareRows(dataset, comparison);
  const pairs = { total: pairsOf(compared), multiplied, decided };
  const few = { ...tiles, tileRows: Math.min(tileRows, FEW_ROWS) };
  return { key, cosine, groups: await describeGroups(dataset, few, groups.list()), compared, pairs, skipped };
}

/** The number of pairs of so many rows. */
function pairsOf(rows: number): number {
  return (rows * (rows - 1)) / 2;
}
