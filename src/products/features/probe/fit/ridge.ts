/** Ridge regression on targets of ±1, in closed form, and nearest centroids: classifiers that are computed from sums. */
import { invalidOption } from '../../../../base/checks.js';
import { factorize, solveLower, solveUpper } from './cholesky.js';
import type { Moments } from '../rows/class-moments.js';
import type { ClassScorer } from '../rows/linear-scores.js';

/** Size limit of the sums of products. */
const MOST_PRODUCT_BYTES = 512 * 2 ** 20;

/** Checks that the products of all pairs of elements fit in memory, for each fold. Throws `OPTION_INVALID`. */
export function checkRidgeSize(elements: number, folds: number): void {
  // Of each fold, of all but one, the factor, and what the session returns.
  const bytes = 8 * elements ** 2 * (folds + 3);
  if (bytes <= MOST_PRODUCT_BYTES) return;
  const expected = `another one than "ridge" for vectors of ${elements} numbers, or fewer folds`;
  throw invalidOption('kind', expected, 'ridge');
}

/**
 * Ridge regression of each class on +1 and of the others on −1, as scikit-learn's RidgeClassifier: the weights that minimise
 * Σ(weight·(target − score)²) + strength·Σ(penalty·weight²). The bias is not penalised.
 *
 * @param mean - What the elements are taken from in the moments.
 */
export function solveRidge(
  { weights, sums, products }: Moments,
  mean: Float64Array,
  penalty: Float64Array,
  strength: number,
): ClassScorer {
  const elements = mean.length;
  const classes = weights.length;
  const total = weights.reduce((sum, own) => sum + own, 0);
  const offset = new Float64Array(elements);
  for (let i = 0; i < sums.length; i++) offset[i % elements]! += sums[i]! / total;
  const matrix = products.slice();
  for (let i = 0; i < elements; i++) {
    for (let j = 0; j < elements; j++) matrix[i * elements + j]! -= total * offset[i]! * offset[j]!;
    matrix[i * elements + i]! += strength * penalty[i]!;
  }
  factorize(matrix, elements);
  const weight = new Float64Array(classes * elements);
  const bias = new Float64Array(classes);
  for (let k = 0; k < classes; k++) {
    const target = (2 * weights[k]! - total) / total;
    const own = weight.subarray(k * elements, (k + 1) * elements);
    // Σ x·target with targets of ±1: twice the sum of the class less the sum of all rows.
    for (let i = 0; i < elements; i++)
      own[i] = 2 * sums[k * elements + i]! - total * offset[i]! - total * offset[i]! * target;
    solveLower(matrix, own);
    solveUpper(matrix, own);
    let shift = 0;
    for (let i = 0; i < elements; i++) shift += own[i]! * (offset[i]! + mean[i]!);
    bias[k] = target - shift;
  }
  return { weight, bias };
}

/**
 * Nearest centroids as a linear classifier: −‖x − c‖² is 2·c·x − ‖c‖², less a number that all classes share. A class without rows is
 * never the nearest.
 */
export function findCentroids({ weights, sums }: Moments, mean: Float64Array): ClassScorer {
  const elements = mean.length;
  const classes = weights.length;
  const weight = new Float64Array(classes * elements);
  const bias = new Float64Array(classes).fill(-Infinity);
  for (let k = 0; k < classes; k++) {
    if (weights[k] === 0) continue;
    let square = 0;
    for (let i = 0; i < elements; i++) {
      const centre = mean[i]! + sums[k * elements + i]! / weights[k]!;
      weight[k * elements + i] = 2 * centre;
      square += centre * centre;
    }
    bias[k] = -square;
  }
  return { weight, bias };
}
