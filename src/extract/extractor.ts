/** Extractors on one device or several, as those who feed them batch by batch see them. */
import { availableParallelism } from 'node:os';
import type { ResolvedDevice } from '../runtime/device.js';
import type { ReplicaSpent } from '../runtime/replica.js';
import type { Feed } from '../runtime/image-feed.js';
import type { Tensor } from '../runtime/tensor.js';
import { DataParallel, internalsOf as parallelInternalsOf } from './data-parallel.js';
import { internalsOf, type FeatureExtractor } from './feature-extractor.js';
import type { RunOptions } from './run-options.js';

/** A feature extractor on one device, or on several. */
export type Extractor<Key extends string = string> = FeatureExtractor<Key> | DataParallel<Key>;

/** Runs a batch on one device: of several, on the least loaded one. */
export function runWhole<Key extends string>(
  extractor: Extractor<Key>,
  feed: Feed,
  signal: AbortSignal | undefined,
): Promise<Record<Key, Tensor>> {
  const options: RunOptions = { signal, transfer: false };
  return extractor instanceof DataParallel
    ? parallelInternalsOf(extractor).run([feed], { ...options, split: 'none' })
    : internalsOf(extractor).run([feed], options);
}

/** How many batches keep all sessions busy: one at work and one ready for each. */
export function runsAtOnce(extractor: Extractor): number {
  return RUNS_PER_SESSION * sessionsOf(extractor).length;
}

const RUNS_PER_SESSION = 2;

/** The device of each session. */
export function sessionsOf(extractor: Extractor): readonly ResolvedDevice[] {
  return extractor instanceof DataParallel
    ? parallelInternalsOf(extractor).sessions
    : [internalsOf(extractor).device];
}

/** What each of its devices has spent so far. */
export function spentOf(extractor: Extractor): readonly ReplicaSpent[] {
  return extractor instanceof DataParallel
    ? parallelInternalsOf(extractor).spent
    : [internalsOf(extractor).spent];
}

/** How many threads may decode images beside it: the cores that its devices leave free; all, where they take all. */
export function coresToDecode(extractor: Extractor): number {
  const cores = availableParallelism();
  // A session on a GPU keeps one core busy; one on the CPU says how many, 0 being all of them.
  const taken = sessionsOf(extractor).reduce(
    (sum, { type, threads }) => sum + (type === 'cpu' ? threads : 1),
    0,
  );
  return taken < cores ? cores - taken : cores;
}

/** Whether it runs on the CPU alone. */
export function isOnCpu(extractor: Extractor): boolean {
  return sessionsOf(extractor).every(({ type }) => type === 'cpu');
}

/**
 * Whether each run should have as many rows as the others, because a GPU searches its algorithms anew for each size, and
 * can have, because rows of zeros come off again.
 */
export function wantsFullBatches(extractor: Extractor): boolean {
  const { canPad } = internalsOf(extractor instanceof DataParallel ? extractor.module : extractor).model;
  return canPad && !isOnCpu(extractor);
}
