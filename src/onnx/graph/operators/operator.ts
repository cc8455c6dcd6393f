/** What an operator is, as far as graphs are read: the fields of a row in the registry. */
import type { ELEMENT_TYPE } from '../../file/wire/schema.js';

/**
 * The type of a result: that of the input with this number, a type, what an attribute states, or a sequence; `unknown` where a session
 * must be asked.
 */
export type ResultType = number | keyof typeof ELEMENT_TYPE | 'stated' | 'sequence' | 'unknown';

/**
 * What is true of an operator whatever the node. `own` means that a rule with code decides; it stands under the operator's name in the
 * file that the field names.
 */
export interface Operator {
  /**
   * The sizes of the first result. `elementwise`: each element follows from the one at its place in the first input; `broadcast`: from
   * one of each input; `same`: those of the first input, and elements meet; `reduced`: without those of `axes`. `own`: graph/size-rules.
   */
  readonly sizes: 'elementwise' | 'broadcast' | 'same' | 'reduced' | 'own' | 'unknown';
  /**
   * The meaning of the result's axes. `kept` is that of the inputs, `reduced` the same if the rank stays. `channels second` is `[N, C, …]`
   * by definition. `product` (with a weight) and `normalised` (over one axis) have channels last. `turned` follows `perm`.
   */
  readonly axes: 'kept' | 'reduced' | 'channels second' | 'product' | 'normalised' | 'turned' | 'unknown';
  /**
   * How the batch passes. `kept`: on its axis, which is also the guess for unknown operators; `first axis`: only there; `last axes`: not on
   * `axis` and behind; `mixed`: never. `own`: graph/batch/batch-rules.
   */
  readonly batch: 'kept' | 'broadcast' | 'first axis' | 'reduction' | 'last axes' | 'mixed' | 'own';
  /** Multiply-accumulates. `own`: graph/cost/macs; `unknown`: it has products that nobody counts, or a body. */
  readonly macs: 'none' | 'own' | 'unknown';
  /**
   * How it joins a float16 region. `computes` always does, because it is where the time goes. `follows` and `moves` do if what they read is
   * float16 already, so that no cast is made for them. `moves` copies elements and is exact. `any` reads every type, and its result does
   * not change with it. The others stay in float32; graph/precision/half-forms says why.
   */
  readonly half:
    | 'computes'
    | 'follows'
    | 'moves'
    | 'any'
    | 'sums'
    | 'exponentials'
    | 'positions'
    | 'typed'
    | 'recurrent'
    | 'unproven';
  /** The types of its results in order; further ones have the last. */
  readonly types: readonly ResultType[];
  /** An activation, or the first operator of one that exporters spell out. */
  readonly isActivation?: true;
  /** It has one weight and a bias, so optimisers fold what follows into it. */
  readonly isLayer?: true;
  /** It lets tokens exchange what they hold. */
  readonly isAttention?: true;
  /** No gradient passes: its results are integers, truths, or steps. */
  readonly isStep?: true;
  /** It gives other results when it runs again. */
  readonly isRandom?: true;
  /**
   * It belongs to a model in 8 bits: it `computes` with 8-bit numbers or makes them of activations, or only `widens` what is stored so.
   */
  readonly int8?: 'computes' | 'widens';
  /**
   * 8-bit levels pass through: its results are elements of its first input, or of `all`. Of Pad and Resize, graph/quantize/plan-reads says when.
   */
  readonly levels?: 'first' | 'all';
  /** It takes one scale for a whole tensor at run time, so that the rows of a batch depend on each other. */
  readonly sharesScale?: true;
  /** Its results depend on the sizes of what it reads, not on the elements. */
  readonly readsOnlySizes?: true;
}
