/** Sums of what the fast decoding mode did to the pixels of a run. */
import type { TriedInput } from '../../photos/feeds/tried-input.js';

/** The summary in a manifest. */
export interface ReductionSummary {
  /** The number of images that were reduced while they were decoded. */
  readonly images: number;
  /**
   * The difference from exact pixels, in 8-bit values after resize and crop. It is measured for the reduced images among the first
   * 64 inputs of each run; null if no such image was reduced.
   */
  readonly deviation: { readonly images: number; readonly mean: number; readonly max: number } | null;
}

/** Sums that can be added up over images, shards and runs. */
export interface ReducedSums {
  readonly images: number;
  /** The number of images that were compared with exact pixels. */
  readonly measured: number;
  /** The sum of their mean deviations. */
  readonly sum: number;
  readonly max: number;
}

export const NOTHING_REDUCED: ReducedSums = { images: 0, measured: 0, sum: 0, max: 0 };

export function addReduced(
  sums: ReducedSums,
  { reduction, deviation }: Pick<TriedInput, 'reduction' | 'deviation'>,
): ReducedSums {
  if (reduction === 1 && !deviation) return sums;
  const { images, measured, sum, max } = sums;
  return {
    images: images + (reduction > 1 ? 1 : 0),
    measured: measured + (deviation ? 1 : 0),
    sum: sum + (deviation?.mean ?? 0),
    max: Math.max(max, deviation?.max ?? 0),
  };
}

export function summarizeReduced(parts: readonly ReducedSums[]): ReductionSummary {
  const total = (of: (part: ReducedSums) => number): number => parts.reduce((all, part) => all + of(part), 0);
  const measured = total((part) => part.measured);
  const deviation = {
    images: measured,
    mean: total((part) => part.sum) / measured,
    max: parts.reduce((most, { max }) => Math.max(most, max), 0),
  };
  return { images: total((part) => part.images), deviation: measured === 0 ? null : deviation };
}
