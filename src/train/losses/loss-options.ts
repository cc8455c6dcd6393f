/** The losses that a model can be trained with, as users name them. */
import { checkOneOf, invalidOption, withDefaults, type Options } from '../../base/checks.js';
import { readTensor, type Tensor, type TensorLike } from '../../tensor/tensor.js';

/** How terms become one number. */
export type LossReduction = 'mean' | 'sum';

/** `torch.nn.CrossEntropyLoss`: logits `[N, K, …]`, and class indices `[N, …]` or probabilities `[N, K, …]`. */
export interface CrossEntropyLoss {
  readonly kind: 'cross-entropy';
  /** `'mean'` divides by the weights of the classes that are there, as torch does. */
  readonly reduction: LossReduction;
  /** From 0 to 1. */
  readonly labelSmoothing: number;
  /** Rows with this class index count nothing. */
  readonly ignoreIndex: number;
  /** A weight per class. */
  readonly weights: readonly number[] | undefined;
}

/** `torch.nn.NLLLoss`: log probabilities `[N, K, …]`, and class indices `[N, …]`. */
export interface NegativeLogLikelihoodLoss {
  readonly kind: 'nll';
  readonly reduction: LossReduction;
  readonly ignoreIndex: number;
  readonly weights: readonly number[] | undefined;
}

/** `torch.nn.BCEWithLogitsLoss`: logits, and targets from 0 to 1 of the same dims. */
export interface BinaryCrossEntropyLoss {
  readonly kind: 'bce-with-logits';
  readonly reduction: LossReduction;
  /** Factors of the terms; their dims broadcast to the output's, without its rows or with one for all. */
  readonly weight: TensorLike | undefined;
  /** A weight of the positive answer per class: along axis 1. */
  readonly posWeight: readonly number[] | undefined;
}

/** `torch.nn.MSELoss`: targets of the output's dims. */
export interface SquaredLoss {
  readonly kind: 'mse';
  readonly reduction: LossReduction;
}

/** `torch.nn.L1Loss`. */
export interface AbsoluteLoss {
  readonly kind: 'l1';
  readonly reduction: LossReduction;
}

/** `torch.nn.SmoothL1Loss`. */
export interface SmoothL1Loss {
  readonly kind: 'smooth-l1';
  readonly reduction: LossReduction;
  /** Where the square ends, above 0. */
  readonly beta: number;
}

/** `torch.nn.HuberLoss`. */
export interface HuberLoss {
  readonly kind: 'huber';
  readonly reduction: LossReduction;
  /** Where the square ends, above 0. */
  readonly delta: number;
}

/** `torch.nn.KLDivLoss`: log probabilities, and probabilities of the same dims. */
export interface DivergenceLoss {
  readonly kind: 'kl';
  /** `'batchmean'` divides by rows, `'mean'` by elements. */
  readonly reduction: LossReduction | 'batchmean';
}

/** 1 − the cosine of the output and the target along axis 1: `torch.nn.CosineEmbeddingLoss` of pairs that belong together. */
export interface CosineLoss {
  readonly kind: 'cosine';
  readonly reduction: LossReduction;
}

/** A loss with all its options. */
export type Loss =
  | CrossEntropyLoss
  | NegativeLogLikelihoodLoss
  | BinaryCrossEntropyLoss
  | SquaredLoss
  | AbsoluteLoss
  | SmoothL1Loss
  | HuberLoss
  | DivergenceLoss
  | CosineLoss;

/** A loss as the caller passes it: its kind, or its kind with options. */
export type LossLike =
  | Loss['kind']
  | {
      [Kind in Loss['kind']]: { readonly kind: Kind } & Options<
        Omit<Extract<Loss, { readonly kind: Kind }>, 'kind'>
      >;
    }[Loss['kind']];

const CLASS_DEFAULTS = { reduction: 'mean', ignoreIndex: -100, weights: undefined } as const;

/** torch's defaults. */
const DEFAULTS: Readonly<Record<Loss['kind'], object>> = {
  'cross-entropy': { ...CLASS_DEFAULTS, labelSmoothing: 0 },
  nll: CLASS_DEFAULTS,
  'bce-with-logits': { reduction: 'mean', weight: undefined, posWeight: undefined },
  mse: { reduction: 'mean' },
  l1: { reduction: 'mean' },
  'smooth-l1': { reduction: 'mean', beta: 1 },
  huber: { reduction: 'mean', delta: 1 },
  kl: { reduction: 'mean' },
  cosine: { reduction: 'mean' },
};

/** Reads a loss. Throws `OPTION_INVALID`. */
export function readLoss(given: LossLike): Loss {
  const isText = typeof given === 'string';
  if (!isText && (typeof given !== 'object' || given === null || Array.isArray(given)))
    throw invalidOption('loss', 'the name of a loss, or { kind, … }', given);
  const { kind: name, ...options } = isText ? { kind: given } : given;
  const kind = checkOneOf('loss.kind', name, Object.keys(DEFAULTS) as Loss['kind'][]);
  const loss = { kind, ...withDefaults(DEFAULTS[kind], options, `loss "${kind}"`) } as Loss;
  const reductions = kind === 'kl' ? ['mean', 'sum', 'batchmean'] : ['mean', 'sum'];
  checkOneOf('loss.reduction', loss.reduction, reductions);
  if (loss.kind === 'cross-entropy') checkShare('loss.labelSmoothing', loss.labelSmoothing);
  if ('weights' in loss) checkNumbers('loss.weights', loss.weights);
  if ('posWeight' in loss) checkNumbers('loss.posWeight', loss.posWeight);
  if ('ignoreIndex' in loss && !Number.isInteger(loss.ignoreIndex))
    throw invalidOption('loss.ignoreIndex', 'an integer', loss.ignoreIndex);
  if (loss.kind === 'smooth-l1') checkPositive('loss.beta', loss.beta);
  if (loss.kind === 'huber') checkPositive('loss.delta', loss.delta);
  return loss;
}

/** The weights of a binary cross entropy as float32. Throws `INPUT_MISMATCH`. */
export function readWeight(weight: TensorLike): Tensor<'float32'> {
  const { dims, data } = readTensor('loss.weight', weight);
  return { dtype: 'float32', dims, data: Float32Array.from(data as Float32Array) };
}

function checkShare(option: string, value: number): void {
  if (!(typeof value === 'number' && value >= 0 && value <= 1))
    throw invalidOption(option, 'a number from 0 to 1', value);
}

function checkPositive(option: string, value: number): void {
  if (!(typeof value === 'number' && value > 0 && value < Infinity))
    throw invalidOption(option, 'a number above 0', value);
}

function checkNumbers(option: string, values: readonly number[] | undefined): void {
  const isFine =
    values === undefined ||
    (Array.isArray(values) && values.every((value) => Number.isFinite(value) && value >= 0));
  if (!isFine) throw invalidOption(option, 'a list of numbers from 0', values);
}
