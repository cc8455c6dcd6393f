/**
 * The coordinates that a problem of logistic regression is solved in. They make the objective curve about equally in all directions: it
 * is the same objective, and its minimum takes far fewer steps.
 */
import { columnsOf, matrixGraph } from '../../../linear/row-graphs.js';
import { openRowSession, rowsTensor, type RowSession } from '../../../linear/row-session.js';
import { factorize, invertLower, multiplyUpper, solveLower, solveUpper } from './cholesky.js';
import { addUpFolds } from '../rows/class-moments.js';
import type { RowBlocks } from '../rows/labelled-rows.js';
import { dot, type Evaluation } from './lbfgs.js';
import type { ClassScorer } from '../rows/linear-scores.js';

/**
 * A problem: the classifier that minimises ½·Σ(penalty·weight²) + strength·Σ(importance·cross-entropy) over the rows outside one fold.
 * The bias is not penalised.
 */
export interface LogisticProblem {
  /** scikit-learn's C, from above 0. */
  readonly strength: number;
  /** The fold whose rows are left out; null to use all rows. */
  readonly heldOut: number | null;
  /** The importance of a row of each class. */
  readonly classWeights: readonly number[];
  /** Stops when no element of the gradient of the mean loss is larger, for elements of unit deviation. */
  readonly tolerance: number;
  readonly mostIterations: number;
  /** Where to start: a classifier for a similar problem. By default from zeros. */
  readonly start?: ClassScorer | undefined;
}

/** What the problems share. */
export interface LogisticData {
  readonly rows: RowBlocks;
  readonly classes: number;
  /** The fold of each row. */
  readonly foldOf: Uint8Array;
  /** The penalty of each element. */
  readonly penalty: Float64Array;
  readonly signal: AbortSignal | undefined;
  /** Called before each pass over the rows, with the number of classifiers that are not finished. */
  readonly onPass: (passes: number, open: number) => void;
}

/** Vectors of more elements are scaled element by element: a factor of their covariance would take too much memory. */
const MOST_COVARIANCE = 1024;
/** Shorter ones are solved here: a run of a session would take longer. */
const SHORT = 128;

type Product = RowSession<{ readonly y: Float64Array }>;

/** What turns points into weights: a matrix, or for long vectors a number per element. */
export interface Scaling extends AsyncDisposable {
  /** points `[K, D]` → weights `[K, D]`. */
  toWeights(points: Float64Array): Promise<Float64Array>;
  /** Slopes of weights `[K, D]` → slopes of points. */
  toSlopes(slopes: Float64Array): Promise<Float64Array>;
  /** Writes the elements of the point that has the given weights. */
  undo(weight: Float64Array, point: Float64Array): void;
}

/** The curvature of the rows, from which the scaling of each strength is made. */
export interface Curvatures {
  /** `[elements, elements]`; empty for long vectors. */
  readonly covariance: Float64Array;
  readonly deviation: Float64Array;
}

/**
 * Opens the scaling of a strength: by the Cholesky factor of curvature · covariance + share · penalty, or the square root of its
 * diagonal. All folds share it: their numbers of rows hardly differ.
 *
 * @param strength - scikit-learn's C.
 */
export async function openScaling(
  { covariance, deviation }: Curvatures,
  { rows, classes, penalty, signal }: LogisticData,
  strength: number,
): Promise<Scaling> {
  // Of cross-entropy where all classes are equally likely.
  const curvature = (classes - 1) / classes ** 2;
  const share = 1 / (strength * rows.count);
  const size = rows.elements;
  if (covariance.length === 0)
    return scaleElements(penalty.map((pull, i) => Math.sqrt(curvature * deviation[i]! ** 2 + share * pull)));
  const factor = covariance.map((value) => curvature * value);
  for (let i = 0; i < size; i++) factor[i * size + i]! += share * penalty[i]!;
  factorize(factor, size);
  if (size <= SHORT) return scaleShort(factor, size);
  const inverse = invertLower(factor, size);
  const openProduct = (matrix: Float64Array): Promise<Product> =>
    openRowSession(matrixGraph(matrix, size), { isQuiet: true, signal });
  // A row of weights is the row of a point times the inverse.
  const weights = await openProduct(inverse);
  const slopes = await openProduct(transpose(inverse, size)).catch(async (error: unknown) => {
    await weights[Symbol.asyncDispose]();
    throw error;
  });
  const multiply = async (product: Product, points: Float64Array): Promise<Float64Array> =>
    (await product.run({ rows: rowsTensor(points, size) })).y;
  return {
    toWeights: (points) => multiply(weights, points),
    toSlopes: (gradient) => multiply(slopes, gradient),
    undo: (weight, point) => multiplyUpper(factor, weight, point),
    [Symbol.asyncDispose]: async () => {
      await weights[Symbol.asyncDispose]();
      await slopes[Symbol.asyncDispose]();
    },
  };
}

function scaleShort(factor: Float64Array, size: number): Scaling {
  const solveEach = async (rows: Float64Array, solve: (row: Float64Array) => void): Promise<Float64Array> => {
    const solved = rows.slice();
    for (let at = 0; at < solved.length; at += size) solve(solved.subarray(at, at + size));
    return solved;
  };
  return {
    toWeights: (points) => solveEach(points, (point) => solveUpper(factor, point)),
    toSlopes: (slopes) => solveEach(slopes, (slope) => solveLower(factor, slope)),
    undo: (weight, point) => multiplyUpper(factor, weight, point),
    [Symbol.asyncDispose]: async () => undefined,
  };
}

function scaleElements(factor: Float64Array): Scaling {
  const size = factor.length;
  const divide = async (rows: Float64Array): Promise<Float64Array> =>
    rows.map((value, at) => value / factor[at % size]!);
  return {
    toWeights: divide,
    toSlopes: divide,
    undo: (weight, point) => {
      for (let i = 0; i < size; i++) point[i] = weight[i]! * factor[i]!;
    },
    [Symbol.asyncDispose]: async () => undefined,
  };
}

function transpose(matrix: Float64Array, size: number): Float64Array {
  const turned = new Float64Array(matrix.length);
  for (let i = 0; i < size; i++) for (let k = 0; k < size; k++) turned[k * size + i] = matrix[i * size + k]!;
  return turned;
}

/** Reads the covariance of the rows, in one pass. */
export async function readCurvatures(
  rows: RowBlocks,
  classes: number,
  signal: AbortSignal | undefined,
): Promise<Curvatures> {
  if (rows.elements > MOST_COVARIANCE) return { covariance: new Float64Array(0), deviation: rows.deviation };
  const classWeights = Array.from({ length: classes }, () => 1);
  const foldOf = new Uint8Array(rows.count);
  const [moments] = await addUpFolds({ rows, classWeights, foldOf, folds: 1, withProducts: true, signal });
  return { covariance: moments!.products.map((product) => product / rows.count), deviation: rows.deviation };
}

/**
 * Turns points into weights, and slopes of weights into gradients. A class has the elements of a point one after the other, then its
 * bias. Elements are centred: the shift goes into the bias, which is not penalised.
 */
export class Coordinates {
  readonly problem: LogisticProblem;
  readonly elements: number;
  readonly #columns: number;
  readonly #mean: Float64Array;
  readonly #penalty: Float64Array;
  readonly #scaling: Scaling;
  /** Σ importance. */
  readonly #total: number;
  /** The share of the penalty in the mean loss. */
  readonly #share: number;

  constructor({ rows, classes, foldOf, penalty }: LogisticData, problem: LogisticProblem, scaling: Scaling) {
    const { heldOut, classWeights, strength } = problem;
    this.problem = problem;
    this.elements = rows.elements;
    this.#columns = columnsOf(classes);
    this.#mean = rows.mean;
    this.#penalty = penalty;
    let total = 0;
    for (const [row, label] of rows.labels.entries())
      if (foldOf[row] !== heldOut) total += classWeights[label]!;
    this.#total = total;
    this.#share = 1 / (strength * total);
    this.#scaling = scaling;
  }

  /** The number of elements of a point. */
  get size(): number {
    return this.#columns * (this.elements + 1);
  }

  /** Writes the elements of a point, a row for each class, after those of other problems. */
  placePoint(point: Float64Array, rows: Float64Array, firstColumn: number): void {
    const { elements } = this;
    for (let k = 0; k < this.#columns; k++) {
      const from = k * (elements + 1);
      rows.set(point.subarray(from, from + elements), (firstColumn + k) * elements);
    }
  }

  /** Writes the biases of a point whose weights are among those of other problems. */
  placeBias(point: Float64Array, weight: Float64Array, bias: Float64Array, firstColumn: number): void {
    const { elements } = this;
    for (let k = 0; k < this.#columns; k++) {
      const own = weight.subarray((firstColumn + k) * elements, (firstColumn + k + 1) * elements);
      bias[firstColumn + k] = point[(k + 1) * (elements + 1) - 1]! - dot(own, this.#mean);
    }
  }

  /** The point of a classifier; the origin for none. */
  pointOf(scorer: ClassScorer | undefined): Float64Array {
    const { elements } = this;
    const point = new Float64Array(this.size);
    if (!scorer) return point;
    const skipped = scorer.bias.length - this.#columns;
    for (let k = 0; k < this.#columns; k++) {
      const weight = scorer.weight.subarray((skipped + k) * elements, (skipped + k + 1) * elements);
      const own = point.subarray(k * (elements + 1), k * (elements + 1) + elements);
      this.#scaling.undo(weight, own);
      point[k * (elements + 1) + elements] = scorer.bias[skipped + k]! + dot(weight, this.#mean);
    }
    return point;
  }

  /** Turns slopes of weights, sums over the rows, into those of the mean loss with its penalty, in place. Returns the penalty. */
  slopesOf(
    weight: Float64Array,
    weightGradient: Float64Array,
    biasGradient: Float64Array,
    firstColumn: number,
  ): number {
    const { elements } = this;
    let squares = 0;
    for (let k = firstColumn; k < firstColumn + this.#columns; k++) {
      const slope = biasGradient[k]!;
      for (let i = 0, at = k * elements; i < elements; i++, at++) {
        const pull = this.#penalty[i]! * weight[at]!;
        squares += pull * weight[at]!;
        weightGradient[at] =
          (weightGradient[at]! - slope * this.#mean[i]!) / this.#total + this.#share * pull;
      }
    }
    return 0.5 * this.#share * squares;
  }

  /** The mean loss with its penalty, and its gradient in these coordinates. */
  evaluation(
    loss: number,
    penalty: number,
    pointGradient: Float64Array,
    biasGradient: Float64Array,
    firstColumn: number,
  ): Evaluation {
    const { elements } = this;
    const gradient = new Float64Array(this.size);
    for (let k = 0; k < this.#columns; k++) {
      const from = (firstColumn + k) * elements;
      gradient.set(pointGradient.subarray(from, from + elements), k * (elements + 1));
      gradient[k * (elements + 1) + elements] = biasGradient[firstColumn + k]! / this.#total;
    }
    return { value: loss / this.#total + penalty, gradient };
  }
}
