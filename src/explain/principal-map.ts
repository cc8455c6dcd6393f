/** Eigen-CAM (Muhammad and Yeasin 2020): the first principal component of a layer. */

const MOST_STEPS = 2000;
const SETTLED = 1e-9;

/**
 * Projects each place on the direction in which the channels vary most over the places.
 *
 * The direction is the first right singular vector of the places × channels, less the mean of each channel; power iteration finds it.
 * Its sign is arbitrary: the map gets that with which it agrees with the mean of the channels.
 *
 * @param activations - `[C, H·W]`.
 * @returns `[H·W]`; zeros where nothing varies.
 */
export function principalMap(activations: Float32Array, channels: number): Float64Array {
  const places = activations.length / channels;
  const centred = Float64Array.from(activations);
  const totals = new Float64Array(places);
  for (let c = 0; c < channels; c++) {
    const channel = centred.subarray(c * places, (c + 1) * places);
    const mean = channel.reduce((sum, value) => sum + value, 0) / places;
    for (let i = 0; i < places; i++) totals[i]! += channel[i]! -= mean;
  }
  const project = (direction: Float64Array): Float64Array => {
    const map = new Float64Array(places);
    for (let c = 0; c < channels; c++)
      for (let i = 0; i < places; i++) map[i]! += direction[c]! * centred[c * places + i]!;
    return map;
  };
  const correlate = (map: Float64Array): Float64Array => {
    const direction = new Float64Array(channels);
    for (let c = 0; c < channels; c++)
      for (let i = 0; i < places; i++) direction[c]! += map[i]! * centred[c * places + i]!;
    return direction;
  };
  // The start is arbitrary; it must not be orthogonal to the direction.
  let direction = unit(Float64Array.from({ length: channels }, (_, c) => Math.sin(c + 1)));
  for (let step = 0; step < MOST_STEPS && direction; step++) {
    const next = unit(correlate(project(direction)));
    const moved = next && distance(next, direction);
    direction = next;
    if (moved !== undefined && moved < SETTLED) break;
  }
  if (!direction) return new Float64Array(places);
  const map = project(direction);
  const agreement = map.reduce((sum, value, i) => sum + value * totals[i]!, 0);
  return agreement < 0 ? map.map((value) => -value) : map;
}

function unit(vector: Float64Array): Float64Array | undefined {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value ** 2, 0));
  return length > 0 ? vector.map((value) => value / length) : undefined;
}

function distance(a: Float64Array, b: Float64Array): number {
  return Math.sqrt(a.reduce((sum, value, i) => sum + (value - b[i]!) ** 2, 0));
}
