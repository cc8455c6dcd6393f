/** The optimizers of torch.optim, computed on the host. */
import { readOptimizerOptions, type OptimizerLike, type OptimizerOptions } from './optimizer-options.js';
import {
  adagradRule,
  adamRule,
  type OptimizerState,
  rmsPropRule,
  sgdRule,
  type UpdateRule,
} from './update-rule.js';

/** An optimizer with its options. It has no state: the caller keeps that of each parameter. */
export interface Optimizer extends UpdateRule {
  readonly options: OptimizerOptions;

  /** Makes the state of a parameter of this many elements before the first step. */
  start(length: number): OptimizerState;
}

/**
 * Reads an optimizer.
 *
 * @param given - A name, such as `'adam'`, or a name with options: `{ kind: 'sgd', lr: 0.01, momentum: 0.9 }`.
 * @throws {@link TapirError} `OPTION_INVALID` for what torch refuses as well, for other names, and for numbers that are not finite.
 */
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
