/** What a schedule says about a step. */

/** The rate of a step. */
export interface Rate {
  readonly lr: number;
  /** The momentum, or Adam's first beta; left out where the schedule does not change it. */
  readonly momentum?: number;
}

/** A schedule that has been read. */
export interface Schedule {
  /** Whether it changes the momentum in some of its steps. */
  readonly changesMomentum: boolean;

  /**
   * The rate of the next step.
   *
   * @param step - Number of finished steps, from 0.
   * @param baseLr - The rate of the optimizer's options.
   */
  at(step: number, baseLr: number): Rate;
}
