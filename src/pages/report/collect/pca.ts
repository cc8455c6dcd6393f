/** Principal component analysis: the plane in which the vectors differ most. */
import { createRandom } from '../../../base/random.js';
import type { Breathe } from '../../../tensor/vectors/breathe.js';
import type { Matrix } from '../../../tensor/vectors/matrix.js';

/** Vectors in the plane of their first two principal components. */
export interface PcaMap {
  /** x and y of each row. */
  readonly points: Float64Array;
  /** Share of the total variance along each axis, from 0 to 1. */
  readonly explained: readonly [number, number];
}

/** Directions iterated at once. More than two let the first two converge fast even if others are close to them. */
const DIRECTIONS = 8;
const MAX_ITERATIONS = 40;
/** Relative change of the first two variances between two iterations. */
const TOLERANCE = 1e-8;

/**
 * Projects rows onto their first two principal components.
 *
 * @remarks Subspace iteration with Rayleigh–Ritz (Halko, Martinsson, Tropp 2011) on the rows, without forming the covariance. The
 * sign of a component is arbitrary; here its largest loading is positive.
 */
export async function projectToPca(matrix: Matrix, breathe: Breathe): Promise<PcaMap> {
  const { rows, columns } = matrix;
  const mean = columnMeans(matrix);
  const total = totalVariance(matrix, mean);
  const points = new Float64Array(rows * 2);
  if (!(total > 0)) return { points, explained: [0, 0] };
  const count = Math.min(DIRECTIONS, columns);
  let basis = orthonormal(startBasis(count, columns));
  let variances: readonly number[] = [];
  for (let iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
    await breathe();
    const before = variances;
    const { images, values, rotation } = ritz(matrix, mean, basis);
    variances = values;
    basis = rotate(basis, rotation);
    if (isSettled(before, values)) break;
    basis = orthonormal(mapBack(matrix, mean, rotate(images, rotation), columns));
  }
  const axes = [0, 1].map((index) => (index < count ? withSign(basis[index]!) : undefined));
  axes.forEach((axis, index) => {
    if (!axis) return;
    const image = project(matrix, mean, axis);
    for (let row = 0; row < rows; row++) points[row * 2 + index] = image[row]!;
  });
  return { points, explained: [(variances[0] ?? 0) / total, (variances[1] ?? 0) / total] };
}

function columnMeans({ rows, columns, data }: Matrix): Float64Array {
  const mean = new Float64Array(columns);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) mean[column]! += data[row * columns + column]!;
  return mean.map((sum) => sum / rows);
}

function totalVariance({ rows, columns, data }: Matrix, mean: Float64Array): number {
  let total = 0;
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      total += (data[row * columns + column]! - mean[column]!) ** 2;
  return total;
}

function startBasis(count: number, columns: number): Float64Array[] {
  const random = createRandom(1);
  return Array.from({ length: count }, () => Float64Array.from({ length: columns }, () => random() - 0.5));
}

/** Modified Gram–Schmidt, run twice for accuracy; directions that vanish become zero. */
function orthonormal(vectors: Float64Array[]): Float64Array[] {
  vectors.forEach((vector, index) => {
    const before = Math.sqrt(dot(vector, vector));
    for (const other of [...vectors.slice(0, index), ...vectors.slice(0, index)]) {
      const share = dot(vector, other);
      for (let i = 0; i < vector.length; i++) vector[i]! -= share * other[i]!;
    }
    const norm = Math.sqrt(dot(vector, vector));
    const scale = norm > before * 1e-12 ? 1 / norm : 0;
    for (let i = 0; i < vector.length; i++) vector[i]! *= scale;
  });
  return vectors;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

/** Centred rows times a direction. */
function project({ rows, columns, data }: Matrix, mean: Float64Array, axis: Float64Array): Float64Array {
  const offset = dot(mean, axis);
  const image = new Float64Array(rows);
  for (let row = 0; row < rows; row++) {
    const start = row * columns;
    let sum = 0;
    for (let column = 0; column < columns; column++) sum += data[start + column]! * axis[column]!;
    image[row] = sum - offset;
  }
  return image;
}

/** The best variances and directions within a subspace, largest first. */
function ritz(
  matrix: Matrix,
  mean: Float64Array,
  basis: readonly Float64Array[],
): { images: Float64Array[]; values: number[]; rotation: number[][] } {
  const images = basis.map((axis) => project(matrix, mean, axis));
  const small = images.map((a) => images.map((b) => dot(a, b)));
  return { images, ...eigenSymmetric(small) };
}

function rotate(vectors: readonly Float64Array[], rotation: readonly (readonly number[])[]): Float64Array[] {
  return rotation.map((weights) => {
    const sum = new Float64Array(vectors[0]!.length);
    weights.forEach((weight, index) => {
      const vector = vectors[index]!;
      for (let i = 0; i < sum.length; i++) sum[i]! += weight * vector[i]!;
    });
    return sum;
  });
}

/** The transposed centred rows times vectors: the second half of a product with the covariance. */
function mapBack(
  { rows, columns, data }: Matrix,
  mean: Float64Array,
  images: readonly Float64Array[],
  length: number,
): Float64Array[] {
  return images.map((image) => {
    const sum = new Float64Array(length);
    let weights = 0;
    for (let row = 0; row < rows; row++) {
      const weight = image[row]!;
      weights += weight;
      const start = row * columns;
      for (let column = 0; column < columns; column++) sum[column]! += weight * data[start + column]!;
    }
    for (let column = 0; column < columns; column++) sum[column]! -= weights * mean[column]!;
    return sum;
  });
}

function isSettled(before: readonly number[], now: readonly number[]): boolean {
  return (
    before.length > 0 &&
    [0, 1].every((i) => Math.abs((before[i] ?? 0) - (now[i] ?? 0)) <= TOLERANCE * now[0]!)
  );
}

function withSign(axis: Float64Array): Float64Array {
  let largest = 0;
  for (const value of axis) if (Math.abs(value) > Math.abs(largest)) largest = value;
  return largest < 0 ? axis.map((value) => -value) : axis;
}

/**
 * Eigenvalues of a small symmetric matrix, largest first, and their vectors as rows, by Jacobi rotations.
 *
 * @param given - Rows of the matrix, which are not changed.
 */
export function eigenSymmetric(given: readonly (readonly number[])[]): {
  values: number[];
  rotation: number[][];
} {
  const size = given.length;
  const matrix = given.map((row) => [...row]);
  const vectors = given.map((_, i) => given.map((__, j) => (i === j ? 1 : 0)));
  const turn = (rows: number[][], p: number, q: number, cos: number, sin: number): void => {
    for (let i = 0; i < size; i++) {
      const [a, b] = [rows[p]![i]!, rows[q]![i]!];
      rows[p]![i] = cos * a - sin * b;
      rows[q]![i] = sin * a + cos * b;
    }
  };
  for (let sweep = 0; sweep < 50; sweep++) {
    let off = 0;
    let diagonal = 0;
    for (let p = 0; p < size; p++)
      for (let q = 0; q < size; q++)
        if (p === q) diagonal += matrix[p]![p]! ** 2;
        else off += matrix[p]![q]! ** 2;
    if (off <= diagonal * 1e-30) break;
    for (let p = 0; p < size; p++) {
      for (let q = p + 1; q < size; q++) {
        if (matrix[p]![q] === 0) continue;
        const ratio = (matrix[q]![q]! - matrix[p]![p]!) / (2 * matrix[p]![q]!);
        const tan = (ratio < 0 ? -1 : 1) / (Math.abs(ratio) + Math.hypot(ratio, 1));
        const cos = 1 / Math.hypot(tan, 1);
        turn(matrix, p, q, cos, tan * cos);
        for (const row of matrix) {
          const [a, b] = [row[p]!, row[q]!];
          row[p] = cos * a - tan * cos * b;
          row[q] = tan * cos * a + cos * b;
        }
        turn(vectors, p, q, cos, tan * cos);
      }
    }
  }
  const order = matrix.map((_, i) => i).toSorted((a, b) => matrix[b]![b]! - matrix[a]![a]!);
  return { values: order.map((i) => matrix[i]![i]!), rotation: order.map((i) => vectors[i]!) };
}
