/** Extractors on one device or several, as those who feed them batch by batch see them. */
import type { Tensor } from '../runtime/tensor.js';
import { DataParallel, parallelStateOf } from './data-parallel.js';
import { featureModelOf, type FeatureExtractor } from './feature-extractor.js';
import type { RunInput, RunOptions } from './run-options.js';

/** A feature extractor on one device, or on several. */
export type Extractor<Key extends string = string> = FeatureExtractor<Key> | DataParallel<Key>;

/** Runs a batch on one device: of several, on the least loaded one. */
export function runWhole<Key extends string>(
  extractor: Extractor<Key>,
  input: RunInput,
  options: RunOptions,
): Promise<Record<Key, Tensor>> {
  return extractor instanceof DataParallel
    ? extractor.run(input, { ...options, split: 'none' })
    : extractor.run(input, options);
}

/** How many batches keep all sessions busy: one at work and one ready for each. */
export function runsAtOnce(extractor: Extractor): number {
  if (!(extractor instanceof DataParallel)) return RUNS_PER_SESSION;
  const { devices, options } = parallelStateOf(extractor);
  return RUNS_PER_SESSION * devices.length * options.sessionsPerDevice;
}

const RUNS_PER_SESSION = 2;

/** Whether it runs on the CPU alone. */
export function isOnCpu(extractor: Extractor): boolean {
  const devices = extractor instanceof DataParallel ? extractor.devices : [extractor.device];
  return devices.every((device) => device.startsWith('cpu'));
}

/**
 * Whether each run should have as many rows as the others, because a GPU searches its algorithms anew for each size, and
 * can have, because rows of zeros come off again.
 */
export function wantsFullBatches(extractor: Extractor): boolean {
  const { canPad } = featureModelOf(extractor instanceof DataParallel ? extractor.module : extractor);
  return canPad && !isOnCpu(extractor);
}
