/** What values a tensor and its channels take on photos: extremes, a histogram and squares, in memory that does not grow. */
import { roundingOf, type Rounding } from '../../graph/quantize/roundings.js';
import type { ChannelFacts } from '../../graph/quantize/smoothing.js';

/** Bins on each side of 0. */
const BINS = 2048;
/** Of a bin, before anything is known: a power of two, so that growing merges whole bins. */
const LEAST_WIDTH = 2 ** -40;

/**
 * The values of a tensor. Bins are a power of two wide. They double when a value lies outside, so that the result does not depend on
 * the order of the photos.
 */
export class ActivationRange {
  low: number = Infinity;
  high: number = -Infinity;
  /** Whether a value was NaN or infinite. */
  isBroken: boolean = false;
  #width = LEAST_WIDTH;
  readonly #bins = new Float64Array(2 * BINS);

  add(data: Float32Array): void {
    let [low, high] = [this.low, this.high];
    let sum = 0;
    for (let i = 0; i < data.length; i++) {
      const x = data[i]!;
      if (x < low) low = x;
      if (x > high) high = x;
      sum += x - x;
    }
    // A value minus itself is 0, or NaN if it is not finite.
    if (sum !== 0) {
      this.isBroken = true;
      return;
    }
    [this.low, this.high] = [low, high];
    const largest = Math.max(-low, high);
    while (largest >= BINS * this.#width) this.#grow();
    const perBin = 1 / this.#width;
    for (let i = 0; i < data.length; i++) this.#bins[Math.floor(data[i]! * perBin) + BINS]!++;
  }

  /** The range without a share of the values at each end. */
  percentile(share: number): readonly [number, number] {
    const total = this.#bins.reduce((sum, count) => sum + count, 0);
    const left = total * (1 - share);
    let [first, last] = [0, 2 * BINS - 1];
    for (let seen = this.#bins[first]!; seen <= left && first < last; seen += this.#bins[first]!) first++;
    for (let seen = this.#bins[last]!; seen <= left && last > first; seen += this.#bins[last]!) last--;
    return [
      Math.max(this.low, (first - BINS) * this.#width),
      Math.min(this.high, (last + 1 - BINS) * this.#width),
    ];
  }

  /** The range whose levels are nearest to the values, by the sum of squares. */
  leastSquares(): readonly [number, number] {
    let best: readonly [number, number] = [this.low, this.high];
    let least = Infinity;
    for (let step = 0; step < SHRINKS; step++) {
      const factor = 1 - step / (SHRINKS + 2);
      const range = [this.low * factor, this.high * factor] as const;
      const error = this.squaredError(roundingOf(...range));
      if (error < least) [best, least] = [range, error];
    }
    return best;
  }

  /** The expected squared error of the values, added up over the bins. */
  squaredError({ scale, zero, isSigned }: Rounding): number {
    const [low, high] = isSigned ? [-128 * scale, 127 * scale] : [-zero * scale, (255 - zero) * scale];
    const inside = scale ** 2 / 12;
    let error = 0;
    for (let bin = 0; bin < 2 * BINS; bin++) {
      const count = this.#bins[bin]!;
      if (count === 0) continue;
      const x = (bin - BINS + 0.5) * this.#width;
      const outside = x < low ? low - x : x > high ? x - high : 0;
      error += count * (outside > 0 ? outside ** 2 : inside);
    }
    return error;
  }

  #grow(): void {
    this.#width *= 2;
    const merged = new Float64Array(2 * BINS);
    for (let bin = 0; bin < 2 * BINS; bin++) merged[BINS + Math.floor((bin - BINS) / 2)]! += this.#bins[bin]!;
    this.#bins.set(merged);
  }
}

const SHRINKS = 40;

/** Extremes and means of squares of the channels on the last axis. */
export class ChannelRange implements ChannelFacts {
  readonly low: Float32Array;
  readonly high: Float32Array;
  readonly #sums: Float64Array;
  #rows = 0;

  constructor(channels: number) {
    this.low = new Float32Array(channels).fill(Infinity);
    this.high = new Float32Array(channels).fill(-Infinity);
    this.#sums = new Float64Array(channels);
  }

  add(data: Float32Array): void {
    const channels = this.low.length;
    for (let at = 0; at < data.length; this.#rows++)
      for (let channel = 0; channel < channels; channel++, at++) {
        const x = data[at]!;
        if (x < this.low[channel]!) this.low[channel] = x;
        if (x > this.high[channel]!) this.high[channel] = x;
        this.#sums[channel]! += x * x;
      }
  }

  get squares(): Float64Array {
    return this.#sums.map((sum) => sum / this.#rows);
  }
}

/** How ranges are chosen, in the order in which they are tried. */
export const RANGE_RULES = [
  'extremes',
  'percentile 99.999',
  'percentile 99.99',
  'percentile 99.9',
  'least squares',
] as const;
/** A way to choose the range of a tensor. */
export type RangeRule = (typeof RANGE_RULES)[number];

/** The levels of a tensor by a rule. */
export function roundingBy(rule: RangeRule, range: ActivationRange): Rounding {
  if (rule === 'extremes') return roundingOf(range.low, range.high);
  if (rule === 'least squares') return roundingOf(...range.leastSquares());
  return roundingOf(...range.percentile(Number(rule.split(' ')[1]) / 100));
}
