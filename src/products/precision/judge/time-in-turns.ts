/** Times several ways to run the same batch, in turns, so that other work on the machine is the same for all. */
import { medianOf } from '../../../base/median.js';

/** How fast a way is. */
export interface Speed {
  readonly imagesPerSecond: number;
  /** CPU time of an image, added up over all cores, in milliseconds. */
  readonly cpuMs: number;
}

const ROUNDS = 5;
/** Slow models get fewer rounds. */
const MOST_MS = 10_000;

/** Times runs of a batch. The first round warms up; one more is always timed. */
export async function timeInTurns(
  runs: readonly (() => Promise<unknown>)[],
  rows: number,
): Promise<readonly Speed[]> {
  const taken = runs.map((): [ms: number, cpuMs: number][] => []);
  const started = performance.now();
  for (let round = 0; round < 2 || (round <= ROUNDS && performance.now() - started < MOST_MS); round++)
    for (const [k, run] of runs.entries()) {
      const [start, cpu] = [performance.now(), process.cpuUsage()];
      // oxlint-disable-next-line no-await-in-loop -- in turns
      await run();
      const { user, system } = process.cpuUsage(cpu);
      if (round > 0) taken[k]!.push([performance.now() - start, (user + system) / 1000]);
    }
  return taken.map((times) => ({
    imagesPerSecond: (1000 * rows) / medianOf(times.map(([ms]) => ms)),
    cpuMs: medianOf(times.map(([, cpuMs]) => cpuMs)) / rows,
  }));
}
