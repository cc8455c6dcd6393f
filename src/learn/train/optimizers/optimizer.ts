/** The optimizers of torch.optim, computed on the host. */
import {
  readOptimizerOptions,
  type AdagradOptions,
  type AdamOptions,
  type AdamWOptions,
  type OptimizerLike,
  type OptimizerOptions,
  type RmsPropOptions,
  type SgdOptions,
} from './optimizer-options.js';

/** What an optimizer keeps about a parameter from step to step: tensors by name, each as long as the parameter. */
export type OptimizerState = Readonly<Record<string, Float32Array>>;

/** A step of training. */
interface StepFacts {
  /** The number of the step, from 1. */
  readonly step: number;
  /** The learning rate of this step. */
  readonly lr: number;
  /** The momentum, or Adam's first beta, of this step. Left out, it is that of the options. */
  readonly momentum?: number;
}

/** The formula of an optimizer with its options. */
interface UpdateRule {
  /** Names of the tensors that it keeps for each parameter, such as `['mean', 'square']`. */
  readonly keeps: readonly string[];
  /** The value of all elements of these tensors before the first step. */
  readonly initial: number;
  /** Whether it follows a schedule that changes the momentum. */
  readonly hasMomentum: boolean;

  /**
   * Moves a parameter by one step, and renews its state: both in place. Every element is computed in float64 and rounded to float32 when it
   * is stored. The result depends on nothing else, so that the same steps give the same bits on every machine.
   */
  update(parameter: Float32Array, gradient: Float32Array, state: OptimizerState, at: StepFacts): void;
}

/** An optimizer with its options. It has no state: the caller keeps that of each parameter. */
export interface Optimizer extends UpdateRule {
  readonly options: OptimizerOptions;

  /** Makes the state of a parameter of this many elements before the first step. */
  start(length: number): OptimizerState;
}

/** Reads an optimizer: a name, or a name with options. Throws as {@link readOptimizerOptions}. */
export function readOptimizer(given: OptimizerLike): Optimizer {
  const options = readOptimizerOptions(given);
  const rule = ruleOf(options);
  const start = (length: number): OptimizerState =>
    Object.fromEntries(rule.keeps.map((name) => [name, new Float32Array(length).fill(rule.initial)]));
  return { ...rule, options, start };
}

function ruleOf(options: OptimizerOptions): UpdateRule {
  switch (options.kind) {
    case 'sgd':
      return sgdRule(options);
    case 'adam':
    case 'adamw':
      return adamRule(options);
    case 'rmsprop':
      return rmsPropRule(options);
    case 'adagrad':
      return adagradRule(options);
  }
}

/** The formula of torch.optim.SGD. */
function sgdRule(options: SgdOptions): UpdateRule {
  const hasMomentum = options.momentum !== 0;
  const update = hasMomentum ? moveByMomentum(options) : moveAlong(options);
  return { keeps: hasMomentum ? ['momentum'] : [], initial: 0, hasMomentum, update };
}

function moveAlong({ weightDecay, maximize }: SgdOptions): UpdateRule['update'] {
  const sign = maximize ? -1 : 1;
  return (parameter, gradient, _state, { lr }) => {
    for (let i = 0; i < parameter.length; i++) {
      const value = parameter[i]!;
      parameter[i] = value - lr * (sign * gradient[i]! + weightDecay * value);
    }
  };
}

function moveByMomentum(options: SgdOptions): UpdateRule['update'] {
  const { weightDecay, maximize, dampening, nesterov } = options;
  const sign = maximize ? -1 : 1;
  return (parameter, gradient, state, { step, lr, momentum: kept = options.momentum }) => {
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
  };
}

/** The formulas of torch.optim.Adam and torch.optim.AdamW. */
function adamRule(options: AdamOptions | AdamWOptions): UpdateRule {
  const { weightDecay, eps, betas } = options;
  const sign = options.maximize ? -1 : 1;
  const isDecoupled = options.kind === 'adamw';
  return {
    keeps: options.amsgrad ? ['mean', 'square', 'largest'] : ['mean', 'square'],
    initial: 0,
    hasMomentum: true,
    update(parameter, gradient, state, { step, lr, momentum: beta1 = betas[0] }) {
      const [, beta2] = betas;
      // Adam adds a share of the parameter to the gradient; AdamW takes it off the parameter.
      const decay = isDecoupled ? 0 : weightDecay;
      const remains = isDecoupled ? 1 - lr * weightDecay : 1;
      // The mean and the mean of squares start at 0.
      const rate = lr / (1 - beta1 ** step);
      const correction = 1 / Math.sqrt(1 - beta2 ** step);
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
        // AMSGrad divides by the largest mean of squares so far.
        const most = largest === undefined ? v : Math.max(largest[i]!, v);
        if (largest !== undefined) largest[i] = most;
        parameter[i] = remains * value - (rate * m) / (Math.sqrt(most) * correction + eps);
      }
    },
  };
}

/** The formula of torch.optim.RMSprop. */
function rmsPropRule(options: RmsPropOptions): UpdateRule {
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
function adagradRule(options: AdagradOptions): UpdateRule {
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
