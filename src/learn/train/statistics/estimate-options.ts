/** The options of estimating statistics, checked. */
import { checkText, invalidOption } from '../../../base/checks.js';
import { integer, oneOf, optional, unchecked, type Fields } from '../../../base/options.js';
import { checkEpsilon, readReference, readState } from '../../parameters/load-state-dict.js';
import type { StateSource } from '../../parameters/dicts/write-state-dict.js';
import { PLACE_FIELDS, type PlaceOptions } from '../../../extract/replicas/place-options.js';
import { isRunning, MODES, type BatchNormMode } from './modes.js';
import type { FoldedKnowledge } from './prepare-norms.js';
import type { Momentum } from './channel-moments.js';
import type { BatchNormMoments } from './saved-moments.js';

/** What is known of norms that the exporter folded. */
export interface FoldedOptions {
  /**
   * The state dict of the model's present weights, for a file whose norms were folded into layers: they are unfolded, estimated and
   * folded again.
   * @default undefined
   */
  readonly state: StateSource | undefined;
  /**
   * The state dict of the model's present weights, if `state` holds other ones, which are then loaded.
   * @default undefined
   */
  readonly reference: StateSource | undefined;
  /**
   * What all keys of the state dicts begin with; see {@link LoadStateOptions}.
   * @default undefined
   */
  readonly prefix: string | undefined;
  /**
   * The epsilon of folded norms, if the state dict does not prove it.
   * @default undefined
   */
  readonly epsilon: number | undefined;
  /**
   * Moments of the source data, from {@link measureMoments}, for a folded file without a state dict: each folded layer is scaled so
   * that its output has these moments again. Norms that are still nodes keep their statistics.
   * @default undefined
   */
  readonly sourceMoments: BatchNormMoments | undefined;
}

export const FOLDED_FIELDS: Fields<FoldedOptions> = {
  state: unchecked(undefined),
  reference: unchecked(undefined),
  prefix: optional(checkText),
  epsilon: optional(checkEpsilon),
  sourceMoments: unchecked(undefined),
};

/** Options of estimating statistics from tensors. */
export interface EstimateOptions extends PlaceOptions, FoldedOptions {
  /** How statistics are estimated. Required. */
  readonly mode: BatchNormMode;
  /**
   * In modes with a running average: the weight of the latest batch, from 0 to 1, or `'cumulative'` for the plain average over
   * batches. By default each layer's own, 0.1 for folded norms.
   * @default undefined
   */
  readonly momentum: Momentum | undefined;
  /**
   * Most bytes of tensors that modes `synced` and `adabn-sequential` hold between two norms, from 1. `synced` takes as many batches
   * through the network together as fit, at least one. `adabn-sequential` holds all rows, and refuses a source that does not fit.
   * @default 2147483648
   */
  readonly memoryBytes: number;
}

/** `mode` has no default: a missing one is refused. */
export const ESTIMATE_FIELDS: Fields<EstimateOptions> = {
  ...PLACE_FIELDS,
  ...FOLDED_FIELDS,
  mode: oneOf(MODES, undefined as never, 'how; left out, only moments are measured'),
  momentum: optional(checkMomentum, 'weight of the latest batch, or "cumulative" (default: each layer’s)'),
  memoryBytes: integer(1, Number.MAX_SAFE_INTEGER, 2 ** 31, 'most bytes held between two norms'),
};

function checkMomentum(option: string, value: unknown): Momentum {
  if (value === 'cumulative' || (typeof value === 'number' && value >= 0 && value <= 1)) return value;
  throw invalidOption(option, 'a number from 0 to 1, or "cumulative"', value);
}

/** Checks that the mode has what is given. Throws `OPTION_INVALID`. */
export function checkMode({ mode, momentum }: EstimateOptions): void {
  if (momentum !== undefined && !isRunning(mode))
    throw invalidOption('momentum', `left out in mode "${mode}", which keeps no running average`, momentum);
}

/** Reads the state dicts. Throws `OPTION_INVALID`. */
export function readFolded(options: FoldedOptions): Omit<FoldedKnowledge, 'source'> {
  const { state, reference, prefix, epsilon, sourceMoments } = options;
  if (state !== undefined && sourceMoments !== undefined)
    throw invalidOption('sourceMoments', 'left out where option "state" is given: that is exact', 'both');
  if (reference !== undefined && state === undefined)
    throw invalidOption('reference', 'left out without option "state"', 'a state dict');
  return {
    state: state && readState(state, prefix),
    reference: reference && readReference(reference, prefix),
    epsilon,
  };
}
