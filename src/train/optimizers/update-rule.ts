/** What an optimizer does with one parameter: the formulas of torch.optim. */
import type {
  AdagradOptions,
  AdamOptions,
  AdamWOptions,
  RmsPropOptions,
  SgdOptions,
} from './optimizer-options.js';

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

/** The formula of torch.optim.SGD. */
export function sgdRule(options: SgdOptions): UpdateRule {
  const hasMomentum = options.momentum !== 0;
  const move = hasMomentum ? moveByMomentum : moveAlong;
  return {
    keeps: hasMomentum ? ['momentum'] : [],
    initial: 0,
    hasMomentum,
    update: (parameter, gradient, state, at) => move(options, parameter, gradient, state, at),
  };
}

function moveAlong(
  { weightDecay, maximize }: SgdOptions,
  parameter: Float32Array,
  gradient: Float32Array,
  _state: OptimizerState,
  { lr }: StepFacts,
): void {
  const sign = maximize ? -1 : 1;
  for (let i = 0; i < parameter.length; i++) {
    const value = parameter[i]!;
    parameter[i] = value - lr * (sign * gradient[i]! + weightDecay * value);
  }
}

function moveByMomentum(
  { weightDecay, maximize, dampening, nesterov, ...options }: SgdOptions,
  parameter: Float32Array,
  gradient: Float32Array,
  state: OptimizerState,
  { step, lr, momentum: kept = options.momentum }: StepFacts,
): void {
  const sign = maximize ? -1 : 1;
  // The momentum is 0 before the first step, at which torch takes the whole gradient.
  const share = step === 1 ? 1 : 1 - dampening;
  const momentum = state['momentum']!;
  for (let i = 0; i < parameter.length; i++) {
    const value = parameter[i]!;
    const slope = sign * gradient[i]! + weightDecay * value;
    const next = kept * momentum[i]! + share * slope;
    momentum[i] = next;
    parameter[i] = value - lr * (nesterov ? slope + kept * next : next);
  }
}

/** The formulas of torch.optim.Adam and torch.optim.AdamW. */
export function adamRule(options: AdamOptions | AdamWOptions): UpdateRule {
  return {
    keeps: options.amsgrad ? ['mean', 'square', 'largest'] : ['mean', 'square'],
    initial: 0,
    hasMomentum: true,
    update: (parameter, gradient, state, at) => move(factors(options, at), parameter, gradient, state),
  };
}

/** The constants of a step. */
interface Factors {
  readonly sign: number;
  /** The share of the parameter that is added to the gradient (Adam). */
  readonly decay: number;
  /** The share of the parameter that stays (AdamW). */
  readonly remains: number;
  readonly beta1: number;
  readonly beta2: number;
  /** The rate, corrected for a mean that starts at 0. */
  readonly rate: number;
  /** Corrects the root of a mean of squares that starts at 0. */
  readonly correction: number;
  readonly eps: number;
}

function factors(options: AdamOptions | AdamWOptions, { step, lr, momentum }: StepFacts): Factors {
  const isDecoupled = options.kind === 'adamw';
  const [, beta2] = options.betas;
  const beta1 = momentum ?? options.betas[0];
  return {
    sign: options.maximize ? -1 : 1,
    decay: isDecoupled ? 0 : options.weightDecay,
    remains: isDecoupled ? 1 - lr * options.weightDecay : 1,
    beta1,
    beta2,
    rate: lr / (1 - beta1 ** step),
    correction: 1 / Math.sqrt(1 - beta2 ** step),
    eps: options.eps,
  };
}

/** Moves by the mean of squares, or with AMSGrad by the largest one so far. */
function move(
  { sign, decay, remains, beta1, beta2, rate, correction, eps }: Factors,
  parameter: Float32Array,
  gradient: Float32Array,
  state: OptimizerState,
): void {
  const mean = state['mean']!;
  const square = state['square']!;
  const largest = state['largest'];
  for (let i = 0; i < parameter.length; i++) {
    const value = parameter[i]!;
    const slope = sign * gradient[i]! + decay * value;
    const m = beta1 * mean[i]! + (1 - beta1) * slope;
    const v = beta2 * square[i]! + (1 - beta2) * slope * slope;
    mean[i] = m;
    square[i] = v;
    const most = largest === undefined ? v : Math.max(largest[i]!, v);
    if (largest !== undefined) largest[i] = most;
    parameter[i] = remains * value - (rate * m) / (Math.sqrt(most) * correction + eps);
  }
}

/** The formula of torch.optim.RMSprop. */
export function rmsPropRule(options: RmsPropOptions): UpdateRule {
  const hasMomentum = options.momentum !== 0;
  return {
    keeps: ['square', ...(options.centered ? ['mean'] : []), ...(hasMomentum ? ['momentum'] : [])],
    initial: 0,
    hasMomentum,
    update(parameter, gradient, state, at) {
      const { alpha, eps, weightDecay } = options;
      const { lr, momentum: kept = options.momentum } = at;
      const sign = options.maximize ? -1 : 1;
      const square = state['square']!;
      const { mean, momentum } = state;
      for (let i = 0; i < parameter.length; i++) {
        const value = parameter[i]!;
        const slope = sign * gradient[i]! + weightDecay * value;
        let spread = alpha * square[i]! + (1 - alpha) * slope * slope;
        square[i] = spread;
        if (mean !== undefined) {
          const m = alpha * mean[i]! + (1 - alpha) * slope;
          mean[i] = m;
          spread -= m * m;
        }
        const divisor = Math.sqrt(spread) + eps;
        // Without a momentum, torch multiplies by the rate before it divides: other bits.
        if (momentum === undefined) parameter[i] = value - (lr * slope) / divisor;
        else {
          const next = kept * momentum[i]! + slope / divisor;
          momentum[i] = next;
          parameter[i] = value - lr * next;
        }
      }
    },
  };
}

/** The formula of torch.optim.Adagrad. */
export function adagradRule(options: AdagradOptions): UpdateRule {
  const { lrDecay, eps, weightDecay } = options;
  const sign = options.maximize ? -1 : 1;
  return {
    keeps: ['sum'],
    initial: options.initialAccumulatorValue,
    hasMomentum: false,
    update(parameter, gradient, state, { step, lr }) {
      const rate = lr / (1 + (step - 1) * lrDecay);
      const sum = state['sum']!;
      for (let i = 0; i < parameter.length; i++) {
        const value = parameter[i]!;
        const slope = sign * gradient[i]! + weightDecay * value;
        const next = sum[i]! + slope * slope;
        sum[i] = next;
        parameter[i] = value - (rate * slope) / (Math.sqrt(next) + eps);
      }
    },
  };
}
