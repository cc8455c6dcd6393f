/** Adam and AdamW: moves by the mean of gradients over the root of the mean of their squares. */
import type { AdamOptions, AdamWOptions } from './optimizer-options.js';
import type { OptimizerState, StepFacts, UpdateRule } from './update-rule.js';

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
