/** The options of a trainer, checked. */
import { checkText, invalidOption, type Options } from '../../../base/checks.js';
import {
  checkedBy,
  integer,
  oneOf,
  optional,
  readOptions,
  unchecked,
  type Fields,
} from '../../../base/options.js';
import { readInputSizes, type CheckedSizes, type InputSizes } from '../../../run/model/open/input-sizes.js';
import { PLACE_FIELDS, type PlaceOptions } from '../../../extract/replicas/place-options.js';
import { readLoss, type LossLike, type Loss } from '../losses/loss-options.js';
import type { OptimizerLike } from '../optimizers/optimizer-options.js';
import { readOptimizer, type Optimizer } from '../optimizers/optimizer.js';
import type { Schedule, ScheduleLike } from '../optimizers/schedule-options.js';
import { checkMomentum, readSchedule } from '../optimizers/schedule.js';
import { ALONE, checkGroup, type ProcessGroup } from '../ranks/process-group.js';
import { readPatterns } from './trained-tensors.js';

/** How BatchNorm normalises in training. */
export type BatchNormTraining = 'frozen' | 'batch' | 'synced';

/** A group of parameters with its own options, as torch.optim has it. */
export type ParameterGroup = {
  /** Names and patterns, as {@link TrainerOptions.parameters}. */
  readonly parameters: string | readonly string[];
} & Options<{
  readonly lr: number;
  readonly weightDecay: number;
  readonly momentum: number;
  readonly betas: readonly [number, number];
  readonly eps: number;
}>;

/** Options of {@link createTrainer}. */
export interface TrainerOptions extends Omit<PlaceOptions, 'signal'> {
  /**
   * What is minimised, by torch.nn's definitions: `'cross-entropy'`, `'nll'`, `'bce-with-logits'`, `'mse'`, `'l1'`, `'smooth-l1'`,
   * `'huber'`, `'kl'`, `'cosine'`, or one of them with options.
   */
  readonly loss: LossLike;
  /** How, by torch.optim's definitions: `{ kind: 'sgd', lr: 0.01, momentum: 0.9 }`, `'adam'`, `'adamw'`, `'rmsprop'`, `'adagrad'`. */
  readonly optimizer: OptimizerLike;
  /**
   * The parameters to train. All others stay as they are, and are not differentiated. Names of parameters (`'fc.weight'`) or modules (`'layer4'`), with `*`
   * for anything, or groups of them with their own options. `'tensor:NAME'` is an initializer of the file.
   * @default '*', every parameter
   */
  readonly parameters: string | readonly string[] | readonly ParameterGroup[];
  /**
   * How BatchNorm normalises. `'frozen'` takes the statistics of the file. `'batch'` takes those of the rows that a device runs, as torch's
   * DataParallel in train mode; those of the first device are kept. `'synced'` takes those of all rows on all devices, as SyncBatchNorm. With a
   * group, those of rank 0 are kept, or those of all ranks.
   * @default 'frozen'
   */
  readonly batchNorm: BatchNormTraining;
  /**
   * The learning rate over steps.
   * @default undefined, the optimizer's own
   */
  readonly schedule: ScheduleLike | undefined;
  /**
   * The largest length (2-norm) of all gradients together; longer ones are scaled down.
   * @default undefined, no limit
   */
  readonly clipNorm: number | undefined;
  /**
   * The most rows that a device runs at once. A larger batch runs in parts whose gradients add up to those of the batch; with `batchNorm`
   * `'batch'`, each part is normalised on its own.
   * @default undefined, all rows of the device
   */
  readonly accumulate: number | undefined;
  /**
   * Values whose results are kept for the backward pass; what lies between them is computed again there, which takes less memory and more
   * time. Names as for {@link DifferentiateOptions.recompute}. Only with `batchNorm: 'frozen'`.
   * @default [], everything is kept
   */
  readonly recompute: readonly string[];
  /**
   * The output that the loss is computed of, in the same forms as the names to return.
   * @default undefined, the only output
   */
  readonly output: string | undefined;
  /**
   * Sizes for axes of inputs that the file leaves open; see {@link DifferentiateOptions}.
   * @default {}
   */
  readonly inputSizes: InputSizes;
  /**
   * The processes that train together: each passes its own rows, and the loss and its gradients are those of all rows. What
   * {@link joinGroup} or {@link localGroups} gives.
   * @default undefined, this process alone
   */
  readonly group: ProcessGroup | undefined;
}

const { signal: _, ...PLACE } = PLACE_FIELDS;

/** A missing loss or optimizer is refused when it is read. */
export const TRAINER_FIELDS: Fields<TrainerOptions> = {
  ...PLACE,
  loss: unchecked(undefined as never),
  optimizer: unchecked(undefined as never),
  parameters: unchecked('*'),
  batchNorm: oneOf(
    ['frozen', 'batch', 'synced'],
    'frozen',
    'statistics of BatchNorm: those of the file, or of batches',
  ),
  schedule: unchecked(undefined),
  clipNorm: { ...optional(checkClipNorm, 'largest length of all gradients together'), reads: 'number' },
  accumulate: optional(integer(1, Number.MAX_SAFE_INTEGER, 1, 'most photos that a device runs at once')),
  recompute: unchecked([]),
  output: optional(checkText),
  inputSizes: unchecked({}),
  group: checkedBy(checkGroup, undefined),
};

function checkClipNorm(option: string, value: unknown): number {
  if (typeof value === 'number' && value > 0) return value;
  throw invalidOption(option, 'a number above 0', value);
}

/** Parameters that share an optimizer. */
export interface TrainedGroup {
  readonly patterns: readonly string[];
  readonly optimizer: Optimizer;
}

/** Checked options. */
export interface TrainerSetup extends Pick<
  TrainerOptions,
  'batchNorm' | 'clipNorm' | 'accumulate' | 'recompute' | 'output'
> {
  readonly loss: Loss;
  readonly groups: readonly TrainedGroup[];
  readonly schedule: Schedule;
  readonly inputSizes: CheckedSizes;
  readonly place: PlaceOptions;
  readonly group: ProcessGroup;
  /** What must be the same on all ranks, as JSON can express it. */
  readonly facts: Readonly<Record<string, unknown>>;
}

/** Reads options. Throws `OPTION_INVALID`. */
export function readTrainerOptions(given: Options<TrainerOptions>): TrainerSetup {
  const options = readOptions(TRAINER_FIELDS, given, 'createTrainer');
  const { batchNorm, recompute, optimizer, parameters, clipNorm, accumulate, output } = options;
  if (batchNorm !== 'frozen' && recompute.length > 0)
    throw invalidOption('recompute', `left out with batchNorm "${batchNorm}"`, recompute);
  const groups = readGroups(options);
  const schedule = readSchedule(options.schedule);
  for (const group of groups) checkMomentum(schedule, group.optimizer);
  return {
    ...options,
    loss: readLoss(options.loss),
    groups,
    schedule,
    inputSizes: readInputSizes(options.inputSizes),
    place: { ...options, signal: undefined },
    group: options.group ?? ALONE,
    facts: {
      loss: options.loss,
      optimizer,
      parameters,
      batchNorm,
      schedule: given.schedule,
      clipNorm,
      accumulate,
      output,
    },
  };
}

function readGroups({ parameters, optimizer }: TrainerOptions): TrainedGroup[] {
  const isGroups = Array.isArray(parameters) && parameters.some((one) => typeof one === 'object');
  if (!isGroups)
    return [{ patterns: readPatterns('parameters', parameters), optimizer: readOptimizer(optimizer) }];
  const base = typeof optimizer === 'string' ? { kind: optimizer } : optimizer;
  return (parameters as readonly ParameterGroup[]).map(({ parameters: own, ...options }, i) => ({
    patterns: readPatterns(`parameters[${i}].parameters`, own),
    optimizer: readOptimizer({ ...base, ...options }),
  }));
}
