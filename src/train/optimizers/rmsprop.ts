/** RMSprop: moves by the gradient over the root of the mean of its squares. */
import type { RmsPropOptions } from './optimizer-options.js';
import type { OptimizerState, StepFacts, UpdateRule } from './update-rule.js';

/** The formula of torch.optim.RMSprop. */
export function rmsPropRule(options: RmsPropOptions): UpdateRule {
  const hasMomentum = options.momentum !== 0;
  return {
    keeps: ['square', ...(options.centered ? ['mean'] : []), ...(hasMomentum ? ['momentum'] : [])],
    initial: 0,
    hasMomentum,
    update: hasMomentum
      ? (parameter, gradient, state, at) => moveByMomentum(options, parameter, gradient, state, at)
      : (parameter, gradient, state, at) => moveAlong(options, parameter, gradient, state, at),
  };
}

function moveAlong(
  { alpha, eps, weightDecay, maximize, centered }: RmsPropOptions,
  parameter: Float32Array,
  gradient: Float32Array,
  state: OptimizerState,
  { lr }: StepFacts,
): void {
  const sign = maximize ? -1 : 1;
  const square = state['square']!;
  const mean = centered ? state['mean']! : undefined;
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
    parameter[i] = value - (lr * slope) / (Math.sqrt(spread) + eps);
  }
}

function moveByMomentum(
  options: RmsPropOptions,
  parameter: Float32Array,
  gradient: Float32Array,
  state: OptimizerState,
  at: StepFacts,
): void {
  const { alpha, eps, weightDecay, maximize, centered } = options;
  const { lr } = at;
  const kept = at.momentum ?? options.momentum;
  const sign = maximize ? -1 : 1;
  const square = state['square']!;
  const mean = centered ? state['mean']! : undefined;
  const momentum = state['momentum']!;
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
    const next = kept * momentum[i]! + slope / (Math.sqrt(spread) + eps);
    momentum[i] = next;
    parameter[i] = value - lr * next;
  }
}
