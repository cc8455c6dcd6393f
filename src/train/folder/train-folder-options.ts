/** The options of trainFolder, checked. */
import { availableParallelism } from 'node:os';
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkOneOf,
  checkSignal,
  checkText,
  invalidOption,
  withDefaults,
  type Options,
} from '../../base/checks.js';
import { PLACE_DEFAULTS, type PlaceOptions } from '../../extract/replicas/place-options.js';
import type { GivenOptimizer, OptimizerOptions } from '../optimizers/optimizer-options.js';
import { readOptimizerOptions } from '../optimizers/optimizer-options.js';
import type { GivenSchedule } from '../optimizers/schedule-options.js';
import type { BatchNormTraining } from '../runs/trainer-options.js';
import type { TransformRequest } from '../../images/configs/find-transform.js';
import type { TrainEvent } from './training-records.js';

/** How the learning rate changes over a training. */
export const FOLDER_SCHEDULES = ['cosine', 'step', 'none'] as const;
/** One of {@link FOLDER_SCHEDULES}. */
export type FolderSchedule = (typeof FOLDER_SCHEDULES)[number];

/** What is done to photos before each step. */
export const AUGMENTATIONS = ['crop-flip', 'none'] as const;
/** One of {@link AUGMENTATIONS}. */
export type Augmentation = (typeof AUGMENTATIONS)[number];

/** Options of {@link trainFolder}. */
export interface TrainFolderOptions extends PlaceOptions {
  /** The ONNX file to write. The page is written beside it, as `OUT.html`, and the preprocessing, as `OUT.transform.json`. */
  readonly out: string;
  /**
   * What is trained, as `parameters` of {@link TrainerOptions}: names of modules or parameters, with `*`.
   * @default undefined, the head
   */
  readonly train: string | readonly string[] | undefined;
  /**
   * Passes over the photos, an integer from 1 to 100,000. A training that goes on may get more.
   * @default 20
   */
  readonly epochs: number;
  /**
   * Photos per step, an integer from 1 to 4096.
   * @default 8
   */
  readonly batch: number;
  /**
   * How weights change, as for {@link createTrainer}.
   * @default 'adam'
   */
  readonly optimizer: GivenOptimizer;
  /**
   * The learning rate over the steps: half a wave down to 0 (`'cosine'`), a tenth after each third of the epochs (`'step'`), or always the
   * same (`'none'`).
   * @default 'cosine'
   */
  readonly schedule: FolderSchedule;
  /**
   * Epochs in which the rate goes up from a hundredth, an integer from 0 and below `epochs`.
   * @default 0
   */
  readonly warmup: number;
  /**
   * The share of each target that is spread over all classes, from 0 to 1.
   * @default 0
   */
  readonly labelSmoothing: number;
  /**
   * How BatchNorm normalises; see {@link TrainerOptions.batchNorm}.
   * @default 'frozen'
   */
  readonly batchNorm: BatchNormTraining;
  /**
   * The largest length of all gradients together.
   * @default undefined, no limit
   */
  readonly clipNorm: number | undefined;
  /**
   * The most rows that a device runs at once; see {@link TrainerOptions.accumulate}.
   * @default undefined
   */
  readonly accumulate: number | undefined;
  /**
   * Random crops and flips of training photos, as torchvision's `RandomResizedCrop` and `RandomHorizontalFlip` make them.
   * @default 'crop-flip'
   */
  readonly augment: Augmentation;
  /**
   * The share of each class that is not trained on but measured on, from 0 to below 1.
   * @default 0.2
   */
  readonly holdout: number;
  /**
   * Another folder of classes to measure on. Then nothing is held out of the first one.
   * @default undefined
   */
  readonly validation: string | undefined;
  /**
   * Chooses the split, the order, the crops and a new head. The same seed gives the same weights on the CPU.
   * @default 0
   */
  readonly seed: number;
  /**
   * Preprocessing, as for `embedImages`.
   * @default 'auto'
   */
  readonly transform: TransformRequest;
  /**
   * Threads that decode photos, an integer from 0 to 1024; 0 uses all cores.
   * @default 0
   */
  readonly decodeThreads: number;
  /**
   * The folder of checkpoints and the log. A training that was stopped goes on from there.
   * @default `OUT.training`
   */
  readonly state: string | undefined;
  /**
   * Where weights that the model keeps in other files go: into the written file, or into `OUT.data` beside it.
   * @default 'repack'
   */
  readonly weights: 'inline' | 'repack';
  /**
   * Replace the files of an earlier training, and start from scratch where one is finished or has other settings.
   * @default false
   */
  readonly overwrite: boolean;
  /**
   * Called for everything that happens. Its errors end the training.
   * @default undefined
   */
  readonly onEvent: ((event: TrainEvent) => void) | undefined;
}

/** {@link TrainFolderOptions} as the caller passes them. */
export type GivenTrainFolderOptions = Pick<TrainFolderOptions, 'out'> &
  Options<Omit<TrainFolderOptions, 'out'>>;

/** A missing `out` is refused when it is read. */
export const TRAIN_FOLDER_DEFAULTS: TrainFolderOptions = {
  ...PLACE_DEFAULTS,
  out: '',
  train: undefined,
  epochs: 20,
  batch: 8,
  optimizer: 'adam',
  schedule: 'cosine',
  warmup: 0,
  labelSmoothing: 0,
  batchNorm: 'frozen',
  clipNorm: undefined,
  accumulate: undefined,
  augment: 'crop-flip',
  holdout: 0.2,
  validation: undefined,
  seed: 0,
  transform: 'auto',
  decodeThreads: 0,
  state: undefined,
  weights: 'repack',
  overwrite: false,
  onEvent: undefined,
};

/** Checked options. */
export interface TrainFolderSetup extends Omit<TrainFolderOptions, 'optimizer' | 'state' | 'onEvent'> {
  readonly optimizer: OptimizerOptions;
  readonly state: string;
  readonly tell: (event: TrainEvent) => void;
}

/** Reads options. What the trainer takes, it checks itself. Throws `OPTION_INVALID`. */
export function readTrainFolderOptions(given: GivenTrainFolderOptions): TrainFolderSetup {
  const { onEvent, state, ...options } = withDefaults(TRAIN_FOLDER_DEFAULTS, given, 'trainFolder');
  const { holdout, validation, epochs } = options;
  const out = checkText('out', options.out);
  if (typeof holdout !== 'number' || !(holdout >= 0 && holdout < 1))
    throw invalidOption('holdout', 'a number from 0 to below 1', holdout);
  checkFunction('onEvent', onEvent);
  checkInteger('epochs', epochs, 1, 100_000);
  return {
    ...options,
    out,
    state: state === undefined ? `${out}.training` : checkText('state', state),
    batch: checkInteger('batch', options.batch, 1, 4096),
    optimizer: readOptimizerOptions(options.optimizer),
    schedule: checkOneOf('schedule', options.schedule, FOLDER_SCHEDULES),
    warmup: checkInteger('warmup', options.warmup, 0, epochs - 1),
    augment: checkOneOf('augment', options.augment, AUGMENTATIONS),
    holdout: validation === undefined ? holdout : 0,
    validation: validation === undefined ? undefined : checkText('validation', validation),
    seed: checkInteger('seed', options.seed, 0, Number.MAX_SAFE_INTEGER),
    decodeThreads: checkInteger('decodeThreads', options.decodeThreads, 0, 1024) || availableParallelism(),
    weights: checkOneOf('weights', options.weights, ['inline', 'repack']),
    overwrite: checkBoolean('overwrite', options.overwrite),
    signal: checkSignal(options.signal),
    tell: (event) => onEvent?.(event),
  };
}

/** The rate of an epoch's first step where warm-up begins. */
const WARMUP_START = 0.01;

/** The schedule over steps; undefined where the rate stays the same. */
export function scheduleOf(
  { schedule, warmup, epochs }: Pick<TrainFolderSetup, 'schedule' | 'warmup' | 'epochs'>,
  stepsPerEpoch: number,
): GivenSchedule | undefined {
  const warm = warmup * stepsPerEpoch;
  const steps = (epochs - warmup) * stepsPerEpoch;
  const main = mainSchedule(schedule, steps, Math.ceil(steps / 3));
  if (warm === 0) return main;
  const rise = { kind: 'linear', startFactor: WARMUP_START, steps: warm } as const;
  const rest = main ?? ({ kind: 'constant', factor: 1 } as const);
  return { kind: 'sequential', schedules: [rise, rest], milestones: [warm] };
}

function mainSchedule(schedule: FolderSchedule, steps: number, stepSize: number): GivenSchedule | undefined {
  if (schedule === 'none') return undefined;
  return schedule === 'cosine' ? { kind: 'cosine', steps } : { kind: 'step', stepSize };
}
