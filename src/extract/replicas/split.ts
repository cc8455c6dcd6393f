/** How many rows each device gets. */
import { checkInteger, invalidOption } from '../../base/checks.js';
import { cutRange } from '../../onnx/tensor/batch.js';

/**
 * How a batch is split over devices.
 *
 * - `chunk`, as torch.chunk: parts of ceil(n / devices) rows, so that the last devices may get fewer rows or none.
 * - `balanced`, as torch.tensor_split: the sizes of parts differ by one row at most.
 * - A list of numbers: weights, one per device.
 * - `dynamic`: small parts; each goes to the next free device.
 * - `none`: the whole batch goes to the least loaded device.
 */
export type Split = 'chunk' | 'balanced' | 'dynamic' | 'none' | readonly number[];

const EXPECTED = '"chunk", "balanced", "dynamic", "none" or a list of weights, one per device';

/** Checks a split and copies it. Throws `OPTION_INVALID`. */
export function readSplit(given: unknown, devices: number): Split {
  if (given === 'chunk' || given === 'balanced' || given === 'dynamic' || given === 'none') return given;
  if (!Array.isArray(given)) throw invalidOption('split', EXPECTED, given);
  const weights = given.map((weight: unknown) => {
    if (typeof weight === 'number' && Number.isFinite(weight) && weight >= 0) return weight;
    throw invalidOption('split', 'a list of weights from 0', given);
  });
  if (weights.length !== devices || weights.every((weight) => weight === 0)) {
    throw invalidOption('split', `a list of ${devices} weights, not all 0: one per device`, given);
  }
  return weights;
}

/**
 * Splits rows over devices as torch.chunk does: into parts of ceil(rows / devices). There may be fewer parts than devices. With 0
 * rows, each device gets an empty part, as in torch.
 *
 * @param rows - Number of rows, an integer from 0.
 * @param devices - Number of devices, an integer from 1.
 * @returns The rows of each part, in order; they add up to `rows`.
 * @throws {@link TapirError} `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { chunkSizes } from 'onnx-tapir';
 *
 * console.log(chunkSizes(30, 4)); // [8, 8, 8, 6]
 * console.log(chunkSizes(9, 8)); // [2, 2, 2, 2, 1]: three devices get nothing
 * ```
 */
export function chunkSizes(rows: number, devices: number): number[] {
  checkInteger('rows', rows, 0, Number.MAX_SAFE_INTEGER);
  checkInteger('devices', devices, 1, 65_536);
  if (rows === 0) return Array.from({ length: devices }, () => 0);
  return cutRange({ start: 0, count: rows }, Math.ceil(rows / devices)).map(({ count }) => count);
}

/** How the rows of a batch are split over devices. */
export type BatchSplit = 'chunk' | 'balanced' | readonly number[];

/** Rows of each device, 0 for a device without a part. They add up to `rows`. */
export function deviceRows(split: BatchSplit, rows: number, devices: number): number[] {
  if (split === 'chunk') {
    const sizes = chunkSizes(rows, devices);
    return Array.from({ length: devices }, (_, i) => sizes[i] ?? 0);
  }
  const equal = Array.from({ length: devices }, () => 1);
  return weighted(rows, split === 'balanced' ? equal : split);
}

/** Shares by weight, rounded down. The remaining rows go to the largest remainders; among equal ones, to the first. */
function weighted(rows: number, weights: readonly number[]): number[] {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const exact = weights.map((weight) => (rows * weight) / total);
  const sizes = exact.map(Math.floor);
  let left = rows - sizes.reduce((sum, size) => sum + size, 0);
  const byRemainder = exact
    .map((share, i) => ({ i, rest: share - sizes[i]! }))
    .toSorted((a, b) => b.rest - a.rest || a.i - b.i);
  for (const { i } of byRemainder) {
    if (left-- <= 0) break;
    sizes[i]!++;
  }
  return sizes;
}
