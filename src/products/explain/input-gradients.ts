/** Methods that attribute the score to the elements of the image, from gradients with respect to it. */
import { createRandom } from '../../base/random.js';
import { rowOf, type Maps } from '../maps/maps.js';
import { extremes } from './heatmap.js';
import type { PathPoint } from './quadrature.js';
import type { InputMethod, NoiseMethod } from './methods.js';

/** The gradients of the scores at other pixels, of the same dims. */
export type GradientAt = (pixels: Float32Array) => Promise<Float32Array>;

export const BASELINES = ['zero', 'mean'] as const;

/** Where the path of integrated gradients starts: zeros, or the mean of each channel of the image. */
export type Baseline = (typeof BASELINES)[number];

/**
 * Integrated gradients (Sundararajan et al. 2017): (x − b) · Σ weight · ∇(b + alpha · (x − b)).
 *
 * @returns `[N, C, H, W]`. The sum over a row approximates the score less that of the baseline.
 */
export async function integrateGradients(
  image: Maps,
  points: readonly PathPoint[],
  baseline: Baseline,
  gradientAt: GradientAt,
): Promise<Float32Array> {
  const base = baselineOf(image, baseline);
  const total = new Float64Array(base.length);
  for (const { alpha, weight } of points) {
    const pixels = image.data.map((value, i) => base[i]! + alpha * (value - base[i]!));
    // oxlint-disable-next-line no-await-in-loop -- one run at a time bounds the memory
    const gradient = await gradientAt(pixels);
    for (let i = 0; i < total.length; i++) total[i]! += weight * gradient[i]!;
  }
  return Float32Array.from(total, (slope, i) => slope * (image.data[i]! - base[i]!));
}

function baselineOf({ data, size }: Maps, baseline: Baseline): Float32Array {
  const base = new Float32Array(data.length);
  if (baseline === 'zero') return base;
  const places = size[0] * size[1];
  for (let start = 0; start < data.length; start += places) {
    const sum = data.subarray(start, start + places).reduce((total, value) => total + value, 0);
    base.fill(sum / places, start, start + places);
  }
  return base;
}

/** Each method from the mean of the gradients and the mean of their squares. */
const STATISTICS: Readonly<Record<NoiseMethod, (mean: number, square: number) => number>> = {
  // SmoothGrad: Smilkov et al. 2017. Squared, and VarGrad: Hooker et al. 2019, Adebayo et al. 2018.
  'smooth-grad': (mean) => mean,
  'smooth-grad-squared': (_, square) => square,
  'var-grad': (mean, square) => Math.max(0, square - mean ** 2),
};

/** The mean of the gradients at noisy images, of their squares, or their variance. */
export async function smoothGradients(
  method: NoiseMethod,
  image: Maps,
  noises: Iterable<Float32Array>,
  gradientAt: GradientAt,
): Promise<Float32Array> {
  const sums = new Float64Array(image.data.length);
  const squares = new Float64Array(image.data.length);
  let count = 0;
  for (const noise of noises) {
    // oxlint-disable-next-line no-await-in-loop -- one run at a time bounds the memory
    const gradient = await gradientAt(image.data.map((value, i) => value + noise[i]!));
    for (const [i, slope] of gradient.entries()) {
      sums[i]! += slope;
      squares[i]! += slope ** 2;
    }
    count++;
  }
  return Float32Array.from(sums, (sum, i) => STATISTICS[method](sum / count, squares[i]! / count));
}

/** Normal noise by Box and Muller; `level` is its standard deviation as a share of the range of each image's values. */
export function* seededNoise(
  image: Maps,
  { samples, level, seed }: { readonly samples: number; readonly level: number; readonly seed: number },
): Generator<Float32Array> {
  const random = createRandom(seed);
  const rows = Array.from({ length: image.rows }, (_, row) => rowOf(image, row));
  const deviations = rows.map((row) => {
    const [least, most] = extremes(row);
    return level * (most - least);
  });
  const length = rows[0]?.length ?? 0;
  for (let sample = 0; sample < samples; sample++)
    yield Float32Array.from({ length: image.data.length }, (_, i) => {
      const radius = Math.sqrt(-2 * Math.log(1 - random()));
      return deviations[Math.floor(i / length)]! * radius * Math.cos(2 * Math.PI * random());
    });
}

/** One value per pixel, `[N, H, W]`: the sum of contributions, else the largest magnitude. */
export function pixelMaps(
  method: InputMethod,
  { channels, size, rows }: Maps,
  values: Float32Array,
): Float32Array {
  const places = size[0] * size[1];
  const isContribution = method === 'input-x-gradient' || method === 'integrated-gradients';
  return Float32Array.from({ length: rows * places }, (_, at) => {
    const start = Math.floor(at / places) * channels * places + (at % places);
    let pixel = 0;
    for (let c = 0; c < channels; c++) {
      const value = values[start + c * places]!;
      pixel = isContribution ? pixel + value : Math.max(pixel, Math.abs(value));
    }
    return pixel;
  });
}
