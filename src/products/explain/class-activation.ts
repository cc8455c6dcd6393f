/** Class activation maps: the channels of a layer, weighted and added. */
import { rowOf, type Maps } from '../maps/maps.js';
import type { LayerMethod } from './methods.js';

/** One channel of an activation and of the gradient of the score. */
interface Channel {
  readonly a: Float32Array;
  readonly g: Float32Array;
}

/**
 * The weight of a channel in the methods that give it one.
 *
 * Grad-CAM: Selvaraju et al. 2017. Grad-CAM++: Chattopadhay et al. 2018. XGrad-CAM: Fu et al. 2020. The small constants are those of
 * pytorch-grad-cam.
 */
const WEIGHTS: Partial<Record<LayerMethod, (channel: Channel) => number>> = {
  'grad-cam': ({ g }) => sum(g.length, (i) => g[i]!) / g.length,
  'grad-cam++': ({ a, g }) => {
    const total = sum(a.length, (i) => a[i]!);
    const share = (slope: number): number => slope ** 2 / (2 * slope ** 2 + total * slope ** 3 + 1e-6);
    return sum(g.length, (i) => (g[i]! > 0 ? g[i]! * share(g[i]!) : 0));
  },
  'xgrad-cam': ({ a, g }) => sum(a.length, (i) => g[i]! * a[i]!) / (sum(a.length, (i) => a[i]!) + 1e-7),
};

/** The map of each row, `[N, H, W]`, with negative values. The gradients have the dims of the activations; Eigen-CAM reads none. */
export function activationMaps(
  method: Exclude<LayerMethod, 'score-cam'>,
  activations: Maps,
  gradients: Maps | undefined,
): Float32Array {
  const [places, { rows, channels }] = [activations.size[0] * activations.size[1], activations];
  const maps = new Float32Array(rows * places);
  for (let row = 0; row < rows; row++) {
    const of = rowOf(activations, row);
    if (method === 'eigen-cam') {
      maps.set(principalMap(of, channels), row * places);
      continue;
    }
    const slopes = rowOf(gradients!, row);
    const map = new Float64Array(places);
    for (let c = 0; c < channels; c++) {
      const a = of.subarray(c * places, (c + 1) * places);
      const g = slopes.subarray(c * places, (c + 1) * places);
      const weight = WEIGHTS[method]?.({ a, g });
      // HiResCAM (Draelos and Carin 2020) and Layer-CAM (Jiang et al. 2021) weigh each place.
      for (let i = 0; i < places; i++)
        map[i]! += a[i]! * (weight ?? (method === 'layer-cam' ? Math.max(0, g[i]!) : g[i]!));
    }
    maps.set(map, row * places);
  }
  return maps;
}

/** Adds the channels of one row, each with its weight. */
export function weightedSum(channels: Float32Array, weights: ArrayLike<number>): Float32Array {
  const places = channels.length / weights.length;
  return Float32Array.from({ length: places }, (_, i) =>
    sum(weights.length, (c) => weights[c]! * channels[c * places + i]!),
  );
}

function sum(length: number, term: (i: number) => number): number {
  let total = 0;
  for (let i = 0; i < length; i++) total += term(i);
  return total;
}

const MOST_STEPS = 2000;
const SETTLED = 1e-9;

/**
 * Eigen-CAM (Muhammad and Yeasin 2020): projects each place on the direction in which the channels vary most over the places.
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
