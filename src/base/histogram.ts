/** Values counted in equal steps. */

/** Bars of a histogram: the square root of the values, within what a reader can tell apart. */
const [LEAST_BINS, MOST_BINS] = [8, 36];

/** How many bars a number of values gets. */
export function binsFor(count: number): number {
  return Math.min(MOST_BINS, Math.max(LEAST_BINS, Math.ceil(Math.sqrt(count))));
}

/** How many values fall into equal steps from the smallest to the largest. */
export interface Histogram {
  readonly min: number;
  readonly max: number;
  readonly counts: readonly number[];
}

/** Counts values in `bins` equal steps; the last step includes the largest value. `undefined` without values. */
export function countInBins(values: ArrayLike<number>, bins: number): Histogram | undefined {
  if (values.length === 0) return undefined;
  let [min, max] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i++) {
    min = Math.min(min, values[i]!);
    max = Math.max(max, values[i]!);
  }
  if (min === max) return { min, max, counts: [values.length] };
  const counts = Array.from({ length: bins }, () => 0);
  for (let i = 0; i < values.length; i++)
    counts[Math.min(bins - 1, Math.floor(((values[i]! - min) / (max - min)) * bins))]!++;
  return { min, max, counts };
}
