/** The losses that a model can be trained with, as users name them. */
import { checkList, checkOneOf, invalidOption, type Options } from '../../../base/checks.js';
import {
  checkedBy,
  number,
  oneOf,
  optional,
  positive,
  readOptions,
  unchecked,
  type Fields,
} from '../../../base/options.js';
import type { TensorLike } from '../../../onnx/tensor/tensor.js';

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

type LossOptions<Kind> = Omit<Extract<Loss, { readonly kind: Kind }>, 'kind'>;

/** A loss as the caller passes it: its kind, or its kind with options. */
export type LossLike =
  | Loss['kind']
  | { [Kind in Loss['kind']]: { readonly kind: Kind } & Options<LossOptions<Kind>> }[Loss['kind']];

const reduction = oneOf(['mean', 'sum'], 'mean');
const CLASSES = { reduction, ignoreIndex: checkedBy(checkIndex, -100), weights: optional(checkNumbers) };

/** The options of each loss, with torch's defaults. */
const LOSS_FIELDS: { readonly [Kind in Loss['kind']]: Fields<LossOptions<Kind>> } = {
  'cross-entropy': { ...CLASSES, labelSmoothing: number(0, 1, 0) },
  nll: CLASSES,
  'bce-with-logits': { reduction, weight: unchecked(undefined), posWeight: optional(checkNumbers) },
  mse: { reduction },
  l1: { reduction },
  'smooth-l1': { reduction, beta: positive(1) },
  huber: { reduction, delta: positive(1) },
  kl: { reduction: oneOf(['mean', 'sum', 'batchmean'], 'mean') },
  cosine: { reduction },
};

/** Reads a loss. Throws `OPTION_INVALID`. */
export function readLoss(given: LossLike): Loss {
  const isText = typeof given === 'string';
  if (!isText && (typeof given !== 'object' || given === null || Array.isArray(given)))
    throw invalidOption('loss', 'the name of a loss, or { kind, … }', given);
  const { kind: name, ...options } = isText ? { kind: given } : given;
  const kind = checkOneOf('loss.kind', name, Object.keys(LOSS_FIELDS) as Loss['kind'][]);
  return { kind, ...readOptions<object>(LOSS_FIELDS[kind], options, `loss "${kind}"`, 'loss.') } as Loss;
}

function checkIndex(option: string, value: unknown): number {
  if (Number.isInteger(value)) return value as number;
  throw invalidOption(option, 'an integer', value);
}

function checkNumbers(option: string, values: unknown): readonly number[] {
  const isFine = (value: unknown): value is number => Number.isFinite(value) && (value as number) >= 0;
  return checkList(option, values, 'a list of numbers from 0', isFine);
}
