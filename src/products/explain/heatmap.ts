/** From raw maps to heat maps: negative values dropped, scaled to 0…1, enlarged to the image. */
import type { Size } from '../maps/maps.js';

/** Drops negative values and scales each map to 0…1. A map without positive values becomes zeros. */
export function normaliseMaps(maps: Float32Array, size: Size): Float32Array {
  const places = size[0] * size[1];
  const scaled = maps.map((value) => Math.max(0, value));
  for (let start = 0; start < scaled.length; start += places) {
    const map = scaled.subarray(start, start + places);
    const [least, most] = extremes(map);
    for (let i = 0; i < places; i++) map[i] = (map[i]! - least) / (1e-7 + most - least);
  }
  return scaled;
}

/** The least and the largest value. */
export function extremes(values: Float32Array): [least: number, most: number] {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return [least, most];
}

/** How sample positions of the result lie in the source, as in torch's `interpolate`. */
type Alignment = 'half-pixel' | 'corners';

/** Resizes maps bilinearly, without antialiasing. */
export function resizeMaps(maps: Float32Array, from: Size, to: Size, alignment: Alignment): Float32Array {
  const [height, width] = from;
  const rows = samplesAlong(height, to[0], alignment);
  const columns = samplesAlong(width, to[1], alignment);
  const count = maps.length / (height * width);
  const resized = new Float32Array(count * to[0] * to[1]);
  let at = 0;
  for (let map = 0; map < count; map++) {
    const start = map * height * width;
    for (const row of rows) {
      const [upper, lower] = [start + row.first * width, start + row.second * width];
      for (const { first, second, share } of columns) {
        const above = maps[upper + first]! * (1 - share) + maps[upper + second]! * share;
        const below = maps[lower + first]! * (1 - share) + maps[lower + second]! * share;
        resized[at++] = above * (1 - row.share) + below * row.share;
      }
    }
  }
  return resized;
}

/** Two neighbours, and the share of the second. */
interface Sample {
  readonly first: number;
  readonly second: number;
  readonly share: number;
}

function samplesAlong(from: number, to: number, alignment: Alignment): Sample[] {
  return Array.from({ length: to }, (_, i) => {
    const corner = to > 1 ? (i * (from - 1)) / (to - 1) : 0;
    const place = alignment === 'corners' ? corner : Math.max(0, ((i + 0.5) * from) / to - 0.5);
    const first = Math.min(Math.floor(place), from - 1);
    return { first, second: Math.min(first + 1, from - 1), share: place - first };
  });
}
