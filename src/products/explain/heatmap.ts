/** From raw maps to heat maps: negative values dropped, scaled to 0…1, enlarged to the image. */
import { BilinearRows, type Alignment } from '../maps/bilinear.js';
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

/** Resizes maps bilinearly, without antialiasing. */
export function resizeMaps(maps: Float32Array, from: Size, to: Size, alignment: Alignment): Float32Array {
  const [height, width] = to;
  const places = from[0] * from[1];
  const bilinear = new BilinearRows(from, to, alignment, Float64Array);
  const resized = new Float32Array((maps.length / places) * height * width);
  for (let row = 0; row * width < resized.length; row++)
    bilinear.draw(maps, Math.floor(row / height) * places, row % height, resized, row * width);
  return resized;
}
