/** Extractors on one device or several, as those who feed them batch by batch see them. */
import { availableParallelism } from 'node:os';
import { DataParallel, internalsOf as parallelInternalsOf } from './data-parallel.js';
import { internalsOf as singleInternalsOf, type FeatureExtractor } from './feature-extractor.js';
import type { ExtractorInternals } from './internals.js';
import { RUNS_PER_SESSION } from '../runtime/lane-pool.js';

/** A feature extractor on one device, or on several. */
export type Extractor<Key extends string = string> = FeatureExtractor<Key> | DataParallel<Key>;

/** How an extractor is run and what its devices do; `runWhole` takes the least loaded of several. */
export function internalsOf<Key extends string>(extractor: Extractor<Key>): ExtractorInternals<Key> {
  return extractor instanceof DataParallel ? parallelInternalsOf(extractor) : singleInternalsOf(extractor);
}

/** How many batches keep all sessions busy: one at work and one ready for each. */
export function runsAtOnce(extractor: Extractor): number {
  return RUNS_PER_SESSION * internalsOf(extractor).sessions.length;
}

/** How many threads may decode images beside it: the cores that its devices leave free; all, where they take all. */
export function coresToDecode(extractor: Extractor): number {
  const cores = availableParallelism();
  // A session on a GPU keeps one core busy; one on the CPU says how many, 0 being all of them.
  const taken = internalsOf(extractor).sessions.reduce(
    (sum, { type, threads }) => sum + (type === 'cpu' ? threads : 1),
    0,
  );
  return taken < cores ? cores - taken : cores;
}

/** Whether it runs on the CPU alone. */
export function isOnCpu(extractor: Extractor): boolean {
  return internalsOf(extractor).sessions.every(({ type }) => type === 'cpu');
}
