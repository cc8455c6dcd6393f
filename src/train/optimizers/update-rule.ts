/** What an optimizer does with one parameter. */

/** What an optimizer keeps about a parameter from step to step: tensors by name, each as long as the parameter. */
export type OptimizerState = Readonly<Record<string, Float32Array>>;

/** A step of training. */
export interface StepFacts {
  /** The number of the step, from 1. */
  readonly step: number;
  /** The learning rate of this step. */
  readonly lr: number;
  /** The momentum, or Adam's first beta, of this step. Left out, it is that of the options. */
  readonly momentum?: number;
}

/** The formula of an optimizer with its options. */
export interface UpdateRule {
  /** Names of the tensors that it keeps for each parameter, such as `['mean', 'square']`. */
  readonly keeps: readonly string[];
  /** The value of all elements of these tensors before the first step. */
  readonly initial: number;
  /** Whether it follows a schedule that changes the momentum. */
  readonly hasMomentum: boolean;

  /**
   * Moves a parameter by one step, and renews its state: both in place.
   *
   * @param parameter - Changed in place.
   * @param gradient - As long as the parameter. It stays as it is.
   * @param state - What `start` made, or what an earlier step left. Changed in place.
   *
   * @remarks Every element is computed in float64 and rounded to float32 when it is stored. The result depends on nothing else,
   * so that the same steps give the same bits on every machine.
   */
  update(parameter: Float32Array, gradient: Float32Array, state: OptimizerState, at: StepFacts): void;
}
