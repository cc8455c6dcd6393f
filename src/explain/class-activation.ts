/** Class activation maps: the channels of a layer, weighted and added. */
import { principalMap } from './principal-map.js';
import { rowOf, type Maps } from './maps/maps.js';
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

/**
 * The map of each row, `[N, H, W]`, as it is: with negative values.
 *
 * @param gradients - Gradients of the score, of the dims of the activations. Eigen-CAM reads none.
 */
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
