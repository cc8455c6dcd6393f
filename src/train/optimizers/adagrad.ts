/** Adagrad: moves by the gradient over the root of the sum of its squares so far. */
import type { AdagradOptions } from './optimizer-options.js';
import type { UpdateRule } from './update-rule.js';

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
