/** Stochastic gradient descent. */
import type { SgdOptions } from './optimizer-options.js';
import type { OptimizerState, StepFacts, UpdateRule } from './update-rule.js';

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
