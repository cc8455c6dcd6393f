/** Figures of a tensor: mean, deviation, range, zeros, dead channels, NaN. */
import type { PageStatistics } from '../page/data.js';
import type { Places } from './places.js';

/** Computes the figures. `places` gives the channels; undefined for a tensor without places. */
export function measureTensor(values: Float32Array, places: Places | undefined): PageStatistics {
  let [finite, sum, zeros] = [0, 0, 0];
  let [least, largest] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    finite++;
    sum += value;
    if (value === 0) zeros++;
    if (value < least) least = value;
    if (value > largest) largest = value;
  }
  const mean = finite === 0 ? 0 : sum / finite;
  let squares = 0;
  for (const value of values) if (Number.isFinite(value)) squares += (value - mean) ** 2;
  return {
    count: values.length,
    mean,
    std: finite === 0 ? 0 : Math.sqrt(squares / finite),
    least: finite === 0 ? 0 : least,
    largest: finite === 0 ? 0 : largest,
    zeros,
    notFinite: values.length - finite,
    channels: places?.channels ?? null,
    dead: places ? countDead(places) : null,
  };
}

/** Channels whose values are all the same. */
function countDead({ channels, height, width, data }: Places): number {
  const size = height * width;
  if (size < 2) return 0;
  let dead = 0;
  for (let c = 0; c < channels; c++) {
    const first = data[c * size]!;
    let i = 1;
    while (i < size && Object.is(data[c * size + i]!, first)) i++;
    if (i === size) dead++;
  }
  return dead;
}
