/** The optimizers of torch.optim as options: names, defaults and ranges. */
import { checkOneOf, invalidOption, type Options } from '../../../base/checks.js';
import { boolean, checkedBy, number, readOptions, type Field, type Fields } from '../../../base/options.js';

/** What all optimizers have. */
export interface CommonOptimizerOptions {
  /**
   * The learning rate, from 0. A schedule multiplies or replaces it.
   * @default 0.001 for SGD, Adam and AdamW; 0.01 for RMSprop and Adagrad
   */
  readonly lr: number;
  /**
   * The share of each parameter that is added to its gradient (L2 regularisation), from 0. AdamW takes `lr · weightDecay` of
   * the parameter off the parameter itself instead.
   * @default 0; 0.01 for AdamW
   */
  readonly weightDecay: number;
  /**
   * Go up the gradient instead of down.
   * @default false
   */
  readonly maximize: boolean;
}

/** Stochastic gradient descent, as torch.optim.SGD computes it. */
export interface SgdOptions extends CommonOptimizerOptions {
  readonly kind: 'sgd';
  /**
   * The share of the former move that is kept, from 0.
   * @default 0
   */
  readonly momentum: number;
  /**
   * The share of each gradient that does not enter the momentum. The first gradient enters whole, as in torch.
   * @default 0
   */
  readonly dampening: number;
  /**
   * Nesterov's momentum: the gradient is added once more. Needs a momentum, and no dampening.
   * @default false
   */
  readonly nesterov: boolean;
}

/** Options of Adam and AdamW. */
export interface MomentOptions extends CommonOptimizerOptions {
  /**
   * The shares of the former mean of gradients, and of the former mean of their squares, that are kept: from 0, below 1.
   * @default [0.9, 0.999]
   */
  readonly betas: readonly [number, number];
  /**
   * Added to the divisor, from 0.
   * @default 1e-8
   */
  readonly eps: number;
  /**
   * Divide by the largest mean of squares so far (AMSGrad).
   * @default false
   */
  readonly amsgrad: boolean;
}

/** Adam (Kingma and Ba, 2015), as torch.optim.Adam computes it. */
export interface AdamOptions extends MomentOptions {
  readonly kind: 'adam';
}

/** Adam with weight decay apart from the gradient (Loshchilov and Hutter, 2019), as torch.optim.AdamW computes it. */
export interface AdamWOptions extends MomentOptions {
  readonly kind: 'adamw';
}

/** RMSprop (Hinton, 2012), as torch.optim.RMSprop computes it. */
export interface RmsPropOptions extends CommonOptimizerOptions {
  readonly kind: 'rmsprop';
  /**
   * The share of the former mean of squares that is kept, from 0.
   * @default 0.99
   */
  readonly alpha: number;
  /**
   * Added to the divisor, from 0.
   * @default 1e-8
   */
  readonly eps: number;
  /**
   * The share of the former move that is kept, from 0.
   * @default 0
   */
  readonly momentum: number;
  /**
   * Divide by the standard deviation of gradients instead of the root of their mean square.
   * @default false
   */
  readonly centered: boolean;
}

/** Adagrad (Duchi, Hazan and Singer, 2011), as torch.optim.Adagrad computes it. */
export interface AdagradOptions extends CommonOptimizerOptions {
  readonly kind: 'adagrad';
  /**
   * The rate is divided by `1 + lrDecay · finished steps`, from 0.
   * @default 0
   */
  readonly lrDecay: number;
  /**
   * The sum of squares before the first step, from 0.
   * @default 0
   */
  readonly initialAccumulatorValue: number;
  /**
   * Added to the divisor, from 0.
   * @default 1e-10
   */
  readonly eps: number;
}

/** An optimizer with all its options. */
export type OptimizerOptions = SgdOptions | AdamOptions | AdamWOptions | RmsPropOptions | AdagradOptions;

/** The optimizers by name. */
export type OptimizerKind = OptimizerOptions['kind'];

type OptionsOf<Kind> = Omit<Extract<OptimizerOptions, { readonly kind: Kind }>, 'kind'>;

/** An optimizer as the caller passes it: a name, or a name with options. The defaults are torch's. */
export type OptimizerLike =
  | OptimizerKind
  | { [Kind in OptimizerKind]: { readonly kind: Kind } & Options<OptionsOf<Kind>> }[OptimizerKind];

const fromZero = (fallback: number): Field<number> => number(0, Infinity, fallback);
const COMMON = { lr: fromZero(0.001), weightDecay: fromZero(0), maximize: boolean(false) };
const EPS = fromZero(1e-8);
const BETAS = checkedBy(checkBetas, [0.9, 0.999]);
const MOMENTS = { ...COMMON, betas: BETAS, eps: EPS, amsgrad: boolean(false) };
const SUMS = { lrDecay: fromZero(0), initialAccumulatorValue: fromZero(0), eps: fromZero(1e-10) };
const momentum = fromZero(0);

/** The options of each optimizer, with torch's defaults. */
const OPTIMIZER_FIELDS: { readonly [Kind in OptimizerKind]: Fields<OptionsOf<Kind>> } = {
  sgd: { ...COMMON, momentum, dampening: number(-Infinity, Infinity, 0), nesterov: boolean(false) },
  adam: MOMENTS,
  adamw: { ...MOMENTS, weightDecay: fromZero(0.01) },
  rmsprop: {
    ...COMMON,
    lr: fromZero(0.01),
    alpha: fromZero(0.99),
    eps: EPS,
    momentum,
    centered: boolean(false),
  },
  adagrad: { ...COMMON, lr: fromZero(0.01), ...SUMS },
};

/** The names of the optimizers. */
export const OPTIMIZERS = Object.keys(OPTIMIZER_FIELDS) as OptimizerKind[];

/** Reads an optimizer's options. Throws `OPTION_INVALID` for what torch refuses, other names, and numbers that are not finite. */
export function readOptimizerOptions(given: OptimizerLike): OptimizerOptions {
  const isText = typeof given === 'string';
  if (!isText && (given === null || typeof given !== 'object' || Array.isArray(given)))
    throw invalidOption('optimizer', 'the name of an optimizer or its options', given);
  const { kind: name, ...rest } = isText ? { kind: given } : given;
  const kind = checkOneOf(isText ? 'optimizer' : 'optimizer.kind', name, OPTIMIZERS);
  const read = readOptions<object>(OPTIMIZER_FIELDS[kind], rest, `the optimizer "${kind}"`, 'optimizer.');
  const options = Object.freeze({ kind, ...read }) as OptimizerOptions;
  if (options.kind === 'sgd') checkNesterov(options);
  return options;
}

function checkNesterov({ nesterov, momentum, dampening }: SgdOptions): void {
  if (!nesterov || (momentum > 0 && dampening === 0)) return;
  const expected = 'false without a momentum or with dampening (Nesterov needs a momentum and no dampening)';
  throw invalidOption('optimizer.nesterov', expected, nesterov);
}

function checkBetas(option: string, betas: unknown): readonly [number, number] {
  const isShare = (value: unknown): boolean => typeof value === 'number' && value >= 0 && value < 1;
  if (Array.isArray(betas) && betas.length === 2 && betas.every(isShare)) return betas as [number, number];
  throw invalidOption(option, 'two numbers from 0 and below 1', betas);
}
