/** The schedules of torch.optim.lr_scheduler as options. */

/** The rate times `gamma` every `stepSize` steps: torch's StepLR. */
export interface StepSchedule {
  readonly kind: 'step';
  /** Steps of one rate, from 1. */
  readonly stepSize: number;
  /** @default 0.1 */
  readonly gamma?: number | undefined;
}

/** The rate times `gamma` at each milestone: torch's MultiStepLR. */
export interface MultiStepSchedule {
  readonly kind: 'multi-step';
  /** Numbers of steps, from 1, in ascending order. */
  readonly milestones: readonly number[];
  /** @default 0.1 */
  readonly gamma?: number | undefined;
}

/** The rate times `gamma` after every step: torch's ExponentialLR. */
export interface ExponentialSchedule {
  readonly kind: 'exponential';
  readonly gamma: number;
}

/** Half a wave from the rate to `minLr`: torch's CosineAnnealingLR. After that the rate goes up again, as in torch. */
export interface CosineSchedule {
  readonly kind: 'cosine';
  /** Steps down to `minLr`, from 1. */
  readonly steps: number;
  /** @default 0 */
  readonly minLr?: number | undefined;
}

/** Half waves from the rate towards `minLr`, one after another: torch's CosineAnnealingWarmRestarts. */
export interface CosineRestartsSchedule {
  readonly kind: 'cosine-restarts';
  /** Steps of the first half wave, from 1. */
  readonly steps: number;
  /**
   * How many times longer than its predecessor each half wave is: an integer from 1.
   * @default 1
   */
  readonly factor?: number | undefined;
  /** @default 0 */
  readonly minLr?: number | undefined;
}

/** A straight line between two shares of the rate, which then stays: a warm-up, torch's LinearLR. */
export interface LinearSchedule {
  readonly kind: 'linear';
  /**
   * The share of the first step: above 0, at most 1.
   * @default 1/3
   */
  readonly startFactor?: number | undefined;
  /**
   * The share after `steps` steps: from 0 to 1.
   * @default 1
   */
  readonly endFactor?: number | undefined;
  /** @default 5 */
  readonly steps?: number | undefined;
}

/** A share of the rate for some steps, then the rate itself: torch's ConstantLR. */
export interface ConstantSchedule {
  readonly kind: 'constant';
  /**
   * From 0 to 1.
   * @default 1/3
   */
  readonly factor?: number | undefined;
  /** @default 5 */
  readonly steps?: number | undefined;
}

/** The rate times `(1 − done / steps) ^ power`, then 0: torch's PolynomialLR. */
export interface PolynomialSchedule {
  readonly kind: 'polynomial';
  /** @default 5 */
  readonly steps?: number | undefined;
  /** @default 1 */
  readonly power?: number | undefined;
}

/** Schedules one after another, each of which counts its own steps: torch's SequentialLR. */
export interface SequentialSchedule {
  readonly kind: 'sequential';
  readonly schedules: readonly ScheduleLike[];
  /** The numbers of steps, from 1 and ascending, at which the second schedule starts, the third, and so on. */
  readonly milestones: readonly number[];
}

/**
 * Up to `maxLr` and down to almost 0 in one cycle (Smith and Topin, 2018): torch's OneCycleLR with two phases. The rate of the
 * optimizer does not matter. The last rate stays after the cycle; torch refuses more steps.
 */
export interface OneCycleSchedule {
  readonly kind: 'one-cycle';
  readonly maxLr: number;
  /** Steps of the whole cycle, from 1. */
  readonly steps: number;
  /**
   * The part of the cycle in which the rate goes up: from 0 to 1.
   * @default 0.3
   */
  readonly pctStart?: number | undefined;
  /**
   * The form of both phases: half a wave or a straight line.
   * @default 'cosine'
   */
  readonly annealing?: 'cosine' | 'linear' | undefined;
  /**
   * The first rate is `maxLr` divided by this.
   * @default 25
   */
  readonly divFactor?: number | undefined;
  /**
   * The last rate is the first one divided by this.
   * @default 1e4
   */
  readonly finalDivFactor?: number | undefined;
  /**
   * The momentum (Adam's first beta) goes from `max` down to `base` and back, and replaces that of the optimizer. `null` leaves it
   * as it is, which Adagrad and an optimizer with momentum 0 need.
   * @default { base: 0.85, max: 0.95 }
   */
  readonly momentum?: { readonly base: number; readonly max: number } | null | undefined;
}

/** A schedule by name, as the caller passes it. */
export type NamedSchedule =
  | StepSchedule
  | MultiStepSchedule
  | ExponentialSchedule
  | CosineSchedule
  | CosineRestartsSchedule
  | LinearSchedule
  | ConstantSchedule
  | PolynomialSchedule
  | SequentialSchedule
  | OneCycleSchedule;

/**
 * How the learning rate changes from step to step: a schedule of torch by name, or a function that takes the number of finished
 * steps and returns the rate.
 *
 * A schedule counts steps of the optimizer, not epochs. torch's ReduceLROnPlateau is not among them: it needs a metric of each
 * epoch.
 */
export type ScheduleLike = NamedSchedule | ((step: number) => number);

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

  /** The rate of the next step, after so many finished ones, for an optimizer whose options say `baseLr`. */
  at(step: number, baseLr: number): Rate;
}
