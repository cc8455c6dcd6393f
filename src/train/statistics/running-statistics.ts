/** Running means and variances, as torch's BatchNorm updates them. */
import { unbiasedStatistics, type ChannelMoments, type ChannelStatistics } from './channel-moments.js';

/** The weight of the latest batch, or `cumulative` for the plain average over batches (torch: `momentum=None`). */
export type Momentum = number | 'cumulative';

/** The running statistics of one norm. */
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
