/** What the channels of a tensor hold on photos, in memory that does not grow. */
import type { ChannelFacts } from '../../../graph/quantize/smoothing.js';

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
