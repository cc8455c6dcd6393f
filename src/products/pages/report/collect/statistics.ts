/** Statistics of an output over all its rows, in one pass. */
import type { RowLayout } from '../../../../onnx/tensor/vectors/row-layout.js';

/** Statistics of an output's numbers. Numbers that are not finite are only counted. */
export interface OutputStatistics {
  readonly rows: number;
  /** Count of all numbers, finite or not. */
  readonly values: number;
  readonly nan: number;
  readonly infinite: number;
  readonly mean: number;
  /** Standard deviation of all numbers (population: divided by their count). */
  readonly std: number;
  readonly min: number;
  readonly max: number;
  /** Euclidean norm of each row whose numbers are all finite, in order. */
  readonly norms: Float64Array;
  /** Standard deviation of each channel over rows and positions; NaN without finite numbers. */
  readonly channelStd: Float64Array;
  /** Channels that are 0 everywhere. */
  readonly zero: readonly number[];
  /** Channels that have the same value everywhere, other than 0. */
  readonly constant: readonly number[];
}

/** Collects rows one by one. It holds about 50 bytes per channel and 8 bytes per row. */
export class StatisticsCollector {
  readonly #layout: RowLayout;
  readonly #count: Float64Array;
  /** A channel's first finite number. Sums of differences from it keep their digits. */
  readonly #shift: Float64Array;
  readonly #sum: Float64Array;
  readonly #squares: Float64Array;
  readonly #min: Float64Array;
  readonly #max: Float64Array;
  readonly #norms: number[] = [];
  #rows = 0;
  #nan = 0;
  #infinite = 0;

  constructor(layout: RowLayout) {
    this.#layout = layout;
    const perChannel = (): Float64Array => new Float64Array(layout.channels);
    this.#count = perChannel();
    this.#shift = perChannel();
    this.#sum = perChannel();
    this.#squares = perChannel();
    this.#min = perChannel().fill(Infinity);
    this.#max = perChannel().fill(-Infinity);
  }

  /** Adds the row that starts at `start`; returns whether all its numbers are finite. */
  add(data: Float32Array, start: number): boolean {
    const { channels, channelStride, positions, positionStride } = this.#layout;
    let norm = 0;
    let isFinite = true;
    for (let channel = 0; channel < channels; channel++) {
      for (let position = 0; position < positions; position++) {
        const value = data[start + channel * channelStride + position * positionStride]!;
        if (Number.isFinite(value)) {
          this.#take(channel, value);
          norm += value * value;
        } else {
          isFinite = false;
          if (Number.isNaN(value)) this.#nan++;
          else this.#infinite++;
        }
      }
    }
    this.#rows++;
    if (isFinite) this.#norms.push(Math.sqrt(norm));
    return isFinite;
  }

  #take(channel: number, value: number): void {
    if (this.#count[channel]!++ === 0) this.#shift[channel] = value;
    const difference = value - this.#shift[channel]!;
    this.#sum[channel]! += difference;
    this.#squares[channel]! += difference * difference;
    if (value < this.#min[channel]!) this.#min[channel] = value;
    if (value > this.#max[channel]!) this.#max[channel] = value;
  }

  /** Statistics of all rows so far. A single row makes no channel constant. */
  finish(): OutputStatistics {
    const { channels, positions } = this.#layout;
    const channelStd = new Float64Array(channels);
    const total = { count: 0, mean: 0, squares: 0, min: Infinity, max: -Infinity };
    const zero: number[] = [];
    const constant: number[] = [];
    for (let channel = 0; channel < channels; channel++) {
      const count = this.#count[channel]!;
      const mean = this.#shift[channel]! + this.#sum[channel]! / count;
      const squares = Math.max(0, this.#squares[channel]! - this.#sum[channel]! ** 2 / count);
      channelStd[channel] = Math.sqrt(squares / count);
      if (count === 0) continue;
      const [min, max] = [this.#min[channel]!, this.#max[channel]!];
      // A channel that also holds NaN or infinities is not constant.
      if (min === max && this.#rows > 1 && count === this.#rows * positions) {
        (max === 0 ? zero : constant).push(channel);
      }
      // Chan, Golub, LeVeque 1979.
      const difference = mean - total.mean;
      const both = total.count + count;
      total.squares += squares + (difference * difference * total.count * count) / both;
      total.mean += (difference * count) / both;
      total.count = both;
      total.min = Math.min(total.min, min);
      total.max = Math.max(total.max, max);
    }
    const hasNumbers = total.count > 0;
    return {
      rows: this.#rows,
      values: this.#rows * channels * positions,
      nan: this.#nan,
      infinite: this.#infinite,
      mean: hasNumbers ? total.mean : Number.NaN,
      std: hasNumbers ? Math.sqrt(total.squares / total.count) : Number.NaN,
      min: hasNumbers ? total.min : Number.NaN,
      max: hasNumbers ? total.max : Number.NaN,
      norms: Float64Array.from(this.#norms),
      channelStd,
      zero,
      constant,
    };
  }
}
