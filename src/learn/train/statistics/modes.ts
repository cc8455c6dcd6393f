/** The ways to estimate statistics. */

/**
 * How statistics are estimated.
 *
 * - `momentum`: train-mode batches one after the other, with running averages, as `model.train()` on one device.
 * - `device0`: the same with each batch split over the devices; only the first device's rows count, as in torch's DataParallel.
 * - `synced`: each batch is normalised over all devices together, as with SyncBatchNorm.
 * - `precise`: each device's rows of a batch are normalised on their own, and all moments are combined exactly, as fvcore's
 *   `update_bn_stats` does.
 * - `adabn`: moments of what norms read, under the statistics of the model: adaptive BatchNorm in one pass.
 * - `adabn-sequential`: layer by layer over all rows, each layer under the new statistics of those before it.
 */
export type BatchNormMode = 'momentum' | 'device0' | 'synced' | 'precise' | 'adabn' | 'adabn-sequential';

export const MODES: readonly BatchNormMode[] = [
  'momentum',
  'device0',
  'synced',
  'precise',
  'adabn',
  'adabn-sequential',
];

/** Whether a mode keeps a running average. The others take all rows alike, with the population variance. */
export function isRunning(mode: BatchNormMode): boolean {
  return mode === 'momentum' || mode === 'device0' || mode === 'synced';
}
