/** Moments per channel in float64, and how they combine. */

/** Number of values, mean and sum of squared deviations of each channel. */
export interface ChannelMoments {
  /** Values per channel: rows × positions. */
  readonly count: number;
  readonly mean: Float64Array;
  /** Sum of squared deviations from the mean. */
  readonly m2: Float64Array;
}

/** Mean and variance per channel. */
export interface ChannelStatistics {
  readonly mean: Float64Array;
  readonly variance: Float64Array;
}

/** The moments of no values. */
export function noMoments(channels: number): ChannelMoments {
  return { count: 0, mean: new Float64Array(channels), m2: new Float64Array(channels) };
}

/**
 * The moments of several parts together, in their order. Sums of squares would lose all digits of a small variance beside a large
 * mean (Chan, Golub, LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances").
 */
export function combineMoments(parts: readonly ChannelMoments[]): ChannelMoments {
  const [first, ...others] = parts;
  // A defect of the caller.
  if (!first) throw new Error('there are no moments to combine');
  return others.reduce(combineTwo, first);
}

function combineTwo(a: ChannelMoments, b: ChannelMoments): ChannelMoments {
  if (a.count === 0) return b;
  if (b.count === 0) return a;
  const count = a.count + b.count;
  const delta = a.mean.map((mean, c) => b.mean[c]! - mean);
  return {
    count,
    mean: a.mean.map((mean, c) => mean + (delta[c]! * b.count) / count),
    m2: a.m2.map((m2, c) => m2 + b.m2[c]! + (delta[c]! ** 2 * a.count * b.count) / count),
  };
}

/** Mean and population variance: what torch normalises by. */
export function populationStatistics({ count, mean, m2 }: ChannelMoments): ChannelStatistics {
  return { mean, variance: m2.map((value) => value / count) };
}

/** Mean and unbiased variance: what torch stores in `running_var`. */
export function unbiasedStatistics({ count, mean, m2 }: ChannelMoments): ChannelStatistics {
  return { mean, variance: m2.map((value) => value / (count - 1)) };
}

/** The weight of the latest batch, or `cumulative` for the plain average over batches (torch: `momentum=None`). */
export type Momentum = number | 'cumulative';

/** The running means and variances of one norm, as torch's BatchNorm updates them. */
export class RunningStatistics {
  readonly #momentum: Momentum;
  #now: ChannelStatistics;
  #updates = 0;

  /** @param start - The statistics before the first batch. With `cumulative`, the first batch replaces them. */
  constructor(start: ChannelStatistics, momentum: Momentum) {
    this.#now = start;
    this.#momentum = momentum;
  }

  get now(): ChannelStatistics {
    return this.#now;
  }

  /** Adds a batch, with its unbiased variance. */
  update(batch: ChannelMoments): void {
    const weight = this.#momentum === 'cumulative' ? 1 / ++this.#updates : this.#momentum;
    const next = unbiasedStatistics(batch);
    // torch's order: a momentum of 1 gives the batch's numbers exactly.
    const blend = (old: Float64Array, latest: Float64Array): Float64Array =>
      old.map((value, c) => (1 - weight) * value + weight * latest[c]!);
    this.#now = {
      mean: blend(this.#now.mean, next.mean),
      variance: blend(this.#now.variance, next.variance),
    };
  }
}
