/** How a data-parallel model splits its batches. */
import type { Options } from '../../base/checks.js';
import { defaultsOf, integer, oneOf, readOptions, unchecked, type Fields } from '../../base/options.js';
import type { LaneDeathPolicy } from '../../run/runtime/lane-pool.js';
import { readSplit, type Split } from './split.js';

/** Options of data parallelism. */
export interface ParallelOptions {
  /**
   * Axis of the inputs that is split and of the outputs that is joined, from 0 to 15.
   * @default 0
   */
  readonly dim: number;
  /**
   * How rows are split. `'chunk'` is torch.chunk (parts of ceil(rows / devices)), `'balanced'` is torch.tensor_split. A list gives weights.
   * `'dynamic'` gives small parts to the next free device and restores the order. `'none'` gives each batch whole to the least loaded
   * device.
   * @default 'chunk'
   */
  readonly split: Split;
  /**
   * Rows of a part with `split: 'dynamic'`, from 0 to 65,536; 0 makes about four parts per session.
   * @default 0
   */
  readonly microBatch: number;
  /**
   * Sessions per device, 1 to 4: two overlap copying to a GPU with computing, and cost its memory twice. Sessions on WebGPU take turns,
   * so more of them gain nothing, unless they run in processes (`isolation: 'process'`).
   * @default 1
   */
  readonly sessionsPerDevice: number;
  /**
   * What happens to a device whose thread or process dies: it is opened again for the next run, or no longer used.
   * @default 'restart'
   */
  readonly onLaneDeath: LaneDeathPolicy;
}

export const PARALLEL_FIELDS: Fields<ParallelOptions> = {
  dim: integer(0, 15, 0),
  split: unchecked('chunk'),
  microBatch: integer(0, 65_536, 0),
  sessionsPerDevice: integer(1, 4, 1),
  onLaneDeath: oneOf(['restart', 'remove'], 'restart'),
};

export const PARALLEL_DEFAULTS: ParallelOptions = defaultsOf(PARALLEL_FIELDS);

/** Reads the options for a number of devices, and copies them. Throws `OPTION_INVALID`. */
export function readParallelOptions(given: Options<ParallelOptions>, devices: number): ParallelOptions {
  const options = readOptions(PARALLEL_FIELDS, given, 'DataParallel');
  return { ...options, split: readSplit(options.split, devices) };
}
