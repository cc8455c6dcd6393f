/**
 * The coordinates that a problem of logistic regression is solved in. They make the objective curve about equally in all directions: it
 * is the same objective, and its minimum takes far fewer steps.
 */
import { factorize, multiplyUpper, solveLower, solveUpper } from './cholesky.js';
import { addUpFolds } from './class-moments.js';
import type { LabelledRows } from './labelled-rows.js';
import type { Evaluation } from './lbfgs.js';
import type { ClassScorer } from './linear-scores.js';
import type { LogisticData, LogisticProblem } from './logistic-problem.js';
import { columnsOf } from './objective-model.js';

/** Vectors of more elements are scaled element by element: a factor of their covariance would take too much memory. */
const MOST_COVARIANCE = 1024;

/** Factors of the curvature where all classes are equally likely, one for each strength. */
export class Curvatures {
  /** `[elements, elements]`; empty for long vectors. */
  readonly #covariance: Float64Array;
  readonly #deviation: Float64Array;
  readonly #factors = new Map<number, Float64Array>();

  constructor(covariance: Float64Array, deviation: Float64Array) {
    this.#covariance = covariance;
    this.#deviation = deviation;
  }

  /**
   * The Cholesky factor of curvature · covariance + share · penalty; for long vectors the square root of its diagonal.
   *
   * @param curvature - Of cross-entropy where all classes are equally likely.
   * @param share - The share of the penalty in the objective.
   */
  factor(curvature: number, share: number, penalty: Float64Array): Float64Array {
    const size = penalty.length;
    if (this.#covariance.length === 0)
      return penalty.map((pull, i) => Math.sqrt(curvature * this.#deviation[i]! ** 2 + share * pull));
    let factor = this.#factors.get(share);
    if (!factor) {
      factor = this.#covariance.map((value) => curvature * value);
      for (let i = 0; i < size; i++) factor[i * size + i]! += share * penalty[i]!;
      factorize(factor, size);
      this.#factors.set(share, factor);
    }
    return factor;
  }
}

/** Reads the covariance of the rows, in one pass. */
export async function readCurvatures(
  rows: LabelledRows,
  classes: number,
  signal: AbortSignal | undefined,
): Promise<Curvatures> {
  if (rows.elements > MOST_COVARIANCE) return new Curvatures(new Float64Array(0), rows.deviation);
  const classWeights = Array.from({ length: classes }, () => 1);
  const foldOf = new Uint8Array(rows.count);
  const [moments] = await addUpFolds({ rows, classWeights, foldOf, folds: 1, withProducts: true, signal });
  return new Curvatures(
    moments!.products.map((product) => product / rows.count),
    rows.deviation,
  );
}

/**
 * Turns points into weights, and slopes of weights into gradients. A class has the elements of a point one behind the other, then its
 * bias. Elements are centred: the shift goes into the bias, which is not penalised.
 */
export class Coordinates {
  readonly problem: LogisticProblem;
  readonly elements: number;
  readonly #columns: number;
  readonly #mean: Float64Array;
  readonly #penalty: Float64Array;
  readonly #factor: Float64Array;
  /** Σ importance. */
  readonly #total: number;
  /** The share of the penalty in the mean loss. */
  readonly #share: number;
  /** The weights at the latest point. */
  readonly #weights: Float64Array[] = [];

  constructor(
    { rows, classes, foldOf, penalty }: LogisticData,
    problem: LogisticProblem,
    curvatures: Curvatures,
  ) {
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
    // All folds of a strength share a factor: their numbers of rows hardly differ.
    this.#factor = curvatures.factor((classes - 1) / classes ** 2, 1 / (strength * rows.count), penalty);
  }

  /** The number of elements of a point. */
  get size(): number {
    return this.#columns * (this.elements + 1);
  }

  /** Writes the weights and the biases of a point behind those of other problems. */
  place(point: Float64Array, weight: Float64Array, bias: Float64Array, firstColumn: number): void {
    for (let k = 0; k < this.#columns; k++) {
      const own = this.#weightOf(point, k);
      this.#weights[k] = own;
      weight.set(own, (firstColumn + k) * this.elements);
      bias[firstColumn + k] = point[(k + 1) * (this.elements + 1) - 1]! - dot(own, this.#mean);
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
      if (this.#isWhole) multiplyUpper(this.#factor, weight, own);
      else for (let i = 0; i < elements; i++) own[i] = weight[i]! * this.#factor[i]!;
      point[k * (elements + 1) + elements] = scorer.bias[skipped + k]! + dot(weight, this.#mean);
    }
    return point;
  }

  /** The mean loss with its penalty at the point that was placed last, and its gradient in these coordinates, from sums over the rows. */
  evaluate(
    loss: number,
    weightGradient: Float64Array,
    biasGradient: Float64Array,
    firstColumn: number,
  ): Evaluation {
    const { elements } = this;
    const gradient = new Float64Array(this.size);
    let squares = 0;
    for (let k = 0; k < this.#columns; k++) {
      const weight = this.#weights[k]!;
      const from = (firstColumn + k) * elements;
      const slope = biasGradient[firstColumn + k]!;
      const own = gradient.subarray(k * (elements + 1), k * (elements + 1) + elements);
      for (let i = 0; i < elements; i++) {
        const pull = this.#penalty[i]! * weight[i]!;
        squares += pull * weight[i]!;
        own[i] = (weightGradient[from + i]! - slope * this.#mean[i]!) / this.#total + this.#share * pull;
      }
      if (this.#isWhole) solveLower(this.#factor, own);
      else divide(own, this.#factor);
      gradient[k * (elements + 1) + elements] = slope / this.#total;
    }
    return { value: loss / this.#total + 0.5 * this.#share * squares, gradient };
  }

  /** Whether the factor is a matrix. */
  get #isWhole(): boolean {
    return this.#factor.length > this.elements || this.elements === 1;
  }

  #weightOf(point: Float64Array, column: number): Float64Array {
    const from = column * (this.elements + 1);
    const weight = point.slice(from, from + this.elements);
    if (this.#isWhole) solveUpper(this.#factor, weight);
    else divide(weight, this.#factor);
    return weight;
  }
}

function divide(vector: Float64Array, by: Float64Array): void {
  for (let i = 0; i < vector.length; i++) vector[i]! /= by[i]!;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
