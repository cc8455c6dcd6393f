/** Principal component analysis: the directions in which vectors differ most. */
import { EigenvalueDecomposition, Matrix as Numbers, QrDecomposition } from 'ml-matrix';
import { createRandom } from '../../../base/random.js';
import type { Breathe } from './breathe.js';
import type { Matrix } from './cosine.js';

/** Vectors along their principal components, the one of largest variance first. */
export interface Components {
  /** For each component, the place of each row; zeros for components that the vectors do not have. */
  readonly places: readonly (readonly number[])[];
  /** Share of the total variance along each component, from 0 to 1. */
  readonly explained: readonly number[];
}

/** Directions iterated at once: more than are asked for let these converge fast even if others are close to them. */
const DIRECTIONS = 8;
const MAX_ITERATIONS = 40;
/** Relative change of the variances between two iterations. */
const TOLERANCE = 1e-8;

/**
 * Finds the first components of the rows of a matrix.
 *
 * @remarks Subspace iteration with Rayleigh–Ritz (Halko, Martinsson, Tropp 2011) on the rows, without forming the covariance. The
 * sign of a component is arbitrary; here its largest loading is positive.
 */
export async function principalComponents(
  matrix: Matrix,
  count: number,
  breathe: Breathe,
): Promise<Components> {
  const { columns } = matrix;
  const [mean, total] = measureColumns(matrix);
  const places = Array.from({ length: count }, () => Array.from({ length: matrix.rows }, () => 0));
  const explained = Array.from({ length: count }, () => 0);
  if (!(total > 0)) return { places, explained };
  const start = { random: createRandom(1) };
  let basis = orthonormal(Numbers.rand(Math.min(DIRECTIONS, columns), columns, start).sub(0.5));
  let images = basis;
  for (let iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
    await breathe();
    if (iteration > 0) basis = orthonormal(mapBack(matrix, mean, images));
    images = project(matrix, mean, basis);
    // The best variances and directions within the subspace; ml-matrix gives the smallest first.
    const ritz = new EigenvalueDecomposition(images.mmul(images.transpose()), { assumeSymmetric: true });
    const rotation = ritz.eigenvectorMatrix.flipRows().transpose();
    [basis, images] = [rotation.mmul(basis), rotation.mmul(images)];
    const shares = ritz.realEigenvalues.toReversed().map((variance) => variance / total);
    const isSettled = explained.every(
      (share, i) => Math.abs(share - (shares[i] ?? 0)) <= TOLERANCE * shares[0]!,
    );
    explained.forEach((_, i) => (explained[i] = shares[i] ?? 0));
    if (isSettled) break;
  }
  basis.to2DArray().forEach((axis, i) => {
    const largest = axis.reduce((most, value) => (Math.abs(value) > Math.abs(most) ? value : most), 0);
    if (i < count) places[i] = images.getRow(i).map((place) => (largest < 0 ? -place : place));
  });
  return { places, explained };
}

/** The mean of each column, and the sum of all squared differences from it. */
function measureColumns({ rows, columns, data }: Matrix): [mean: Float64Array, total: number] {
  const mean = new Float64Array(columns);
  data.forEach((value, i) => (mean[i % columns]! += value / rows));
  return [mean, data.reduce((sum, value, i) => sum + (value - mean[i % columns]!) ** 2, 0)];
}

/** Orthonormal rows that span what the given rows span. */
function orthonormal(vectors: Numbers): Numbers {
  return new QrDecomposition(vectors.transpose()).orthogonalMatrix.transpose();
}

/** Directions → the centred rows along each of them. */
function project({ rows, columns, data }: Matrix, mean: Float64Array, basis: Numbers): Numbers {
  const images = basis.to2DArray().map((given) => {
    const axis = Float64Array.from(given);
    const offset = axis.reduce((sum, value, i) => sum + value * mean[i]!, 0);
    return Array.from({ length: rows }, (_, row) => dot(data, row * columns, axis) - offset);
  });
  return new Numbers(images);
}

/** Sums of the centred rows, weighted by images: the second half of a product with the covariance. */
function mapBack({ columns, data }: Matrix, mean: Float64Array, images: Numbers): Numbers {
  const sums = images.to2DArray().map((weights) => {
    const sum = new Float64Array(columns);
    weights.forEach((weight, row) => addScaled(sum, weight, data, row * columns));
    const all = weights.reduce((total, weight) => total + weight, 0);
    return Array.from(sum, (value, i) => value - all * mean[i]!);
  });
  return new Numbers(sums);
}

function dot(values: Float32Array, start: number, axis: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < axis.length; i++) sum += values[start + i]! * axis[i]!;
  return sum;
}

function addScaled(to: Float64Array, by: number, values: Float32Array, start: number): void {
  for (let i = 0; i < to.length; i++) to[i]! += by * values[start + i]!;
}
