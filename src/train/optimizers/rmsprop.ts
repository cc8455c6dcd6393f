/** RMSprop: moves by the gradient over the root of the mean of its squares. */
import type { RmsPropOptions } from './optimizer-options.js';
import type { UpdateRule } from './update-rule.js';

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
