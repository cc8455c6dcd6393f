/** What the runs of one peer come to, by round. */
import { spreadOf } from '../measure.js';
import type { Run } from './processes.js';

/** Figures of one peer, by round. */
export interface Figures {
  readonly speed: readonly number[];
  readonly sustained: readonly (number | null)[];
  readonly cpu: readonly (number | null)[];
  readonly start: readonly number[];
  readonly cachedStart: readonly number[];
}

/** Those of a limit are of its own loop, which runs whole batches. */
export function figuresOf(
  photos: number,
  runs: readonly Run[],
  starts: readonly Run[] = [],
  cachedStarts: readonly Run[] = [],
): Figures {
  const start = starts.map(({ wallS }) => wallS);
  const cachedStart = cachedStarts.map(({ wallS }) => wallS);
  // Runs on all photos find the cache filled.
  const before = cachedStart.length > 0 ? cachedStart : start;
  const typical = before.length > 0 ? spreadOf(before).median : 0;
  const figures = runs.map(({ wallS, cpuS, printed: { n, loopS, loopCpuS } }) => {
    if (typeof n === 'number' && typeof loopS === 'number' && typeof loopCpuS === 'number')
      return { speed: n / loopS, sustained: n / loopS, cpu: loopCpuS / n };
    const sustained = before.length > 0 && wallS > typical ? (photos - 1) / (wallS - typical) : null;
    return { speed: photos / wallS, sustained, cpu: cpuS === null ? null : cpuS / photos };
  });
  return {
    speed: figures.map(({ speed }) => speed),
    sustained: figures.map(({ sustained }) => sustained),
    cpu: figures.map(({ cpu }) => cpu),
    start,
    cachedStart,
  };
}
