/** Near-duplicates over a whole dataset, exactly. */
import { countRows, hasParts, readInputOfRows } from '../../../datasets/labels/live-rows.js';
import { readRowsWhere, WHERE } from '../../../datasets/labels/where.js';
import { DEVICE, type Device } from '../../../run/runtime/lanes/device.js';
import { callback, positive, readOptions, signal, type Fields } from '../../../base/options.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import { RowGroups } from '../../../onnx/tensor/vectors/row-groups.js';
import { openRowSession } from '../../linear/row-session.js';
import { pairGraph } from '../../linear/row-graphs.js';
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
  /** Rows left out, because they have no direction: all zeros, or with a NaN or an infinity. */
  readonly skipped: { readonly zero: number; readonly notFinite: number };
}

/** A tile has at most this many rows, and its features at most this many bytes. */
const TILE_ROWS = 2048;
const TILE_BYTES = 8 * 2 ** 20;

/**
 * Finds the near-duplicates of a whole dataset: compares each row with every other one. ONNX Runtime multiplies tiles of rows in
 * float32; each pair within rounding errors of the threshold is compared again in double precision.
 *
 * @remarks Rows are in one group if a chain of near-duplicates connects them; so two rows of a group may be less alike than the
 * threshold. Time grows with the square of the rows. Memory holds about 100 MB of features and products, 12 bytes a row, and the
 * groups. The images are not opened, and nothing is changed or deleted.
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
  const tileRows = Math.max(1, Math.min(TILE_ROWS, Math.floor(TILE_BYTES / (4 * Math.max(1, elements)))));
  const tiles: TileRequest = { key, elements, tileRows, live: await readRowsWhere(dataset, options.where) };
  const totalRows = countRows(dataset);
  const groups = new RowGroups(totalRows);
  const skipped = { zero: 0, notFinite: 0 };
  const total = pairsOf(totalRows);
  const onPanel = (rows: number): void =>
    onProgress?.({ done: total - pairsOf(totalRows - rows), total, unit: 'pairs' });
  await using session = await openRowSession(pairGraph(elements), { device, signal });
  const inputOf = hasParts(dataset) ? await readInputOfRows(dataset) : undefined;
  const comparison = { session, tiles, cosine, groups, inputOf, skipped, onPanel, signal };
  const compared = await compareRows(dataset, comparison);
  return { key, cosine, groups: await describeGroups(dataset, tiles, groups.list()), compared, skipped };
}

/** The number of pairs of so many rows. */
function pairsOf(rows: number): number {
  return (rows * (rows - 1)) / 2;
}
