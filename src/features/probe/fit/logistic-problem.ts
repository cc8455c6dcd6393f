/** The problems of logistic regression, and what they share. */
import type { LabelledRows } from '../rows/labelled-rows.js';
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
  readonly rows: LabelledRows;
  readonly classes: number;
  /** The fold of each row. */
  readonly foldOf: Uint8Array;
  /** The penalty of each element. */
  readonly penalty: Float64Array;
  readonly signal: AbortSignal | undefined;
  /** Called before each pass over the rows, with the number of classifiers that are not finished. */
  readonly onPass: (passes: number, open: number) => void;
}
