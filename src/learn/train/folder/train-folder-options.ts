/** The options of trainFolder, checked. */
import { availableParallelism } from 'node:os';
import { checkInteger, checkText, invalidOption, type Options } from '../../../base/checks.js';
import {
  boolean,
  callback,
  checkedBy,
  integer,
  number,
  oneOf,
  optional,
  readOptions,
  refuseUnused,
  text,
  unchecked,
  type Fields,
} from '../../../base/options.js';
import { PLACE_FIELDS, type PlaceOptions } from '../../../extract/replicas/place-options.js';
import {
  type OptimizerLike,
  type OptimizerOptions,
  readOptimizerOptions,
} from '../optimizers/optimizer-options.js';
import type { ScheduleLike } from '../optimizers/schedule-options.js';
import { TRAINER_FIELDS, type BatchNormTraining } from '../runs/trainer-options.js';
import { photoFields, type PhotoOptions } from '../../../photos/feeds/photo-options.js';
import { ALONE, type ProcessGroup } from '../ranks/process-group.js';
import { UNEVEN, type Uneven } from './rank-photos.js';
import type { TrainEvent } from './training-records.js';

/** How the learning rate changes over a training. */
export const FOLDER_SCHEDULES = ['cosine', 'step', 'none'] as const;
/** One of {@link FOLDER_SCHEDULES}. */
export type FolderSchedule = (typeof FOLDER_SCHEDULES)[number];

/** What is done to photos before each step. */
export const AUGMENTATIONS = ['crop-flip', 'none'] as const;
/** One of {@link AUGMENTATIONS}. */
export type Augmentation = (typeof AUGMENTATIONS)[number];

/** Options of {@link trainFolder}. It refuses `tiles` and `clips`: a photo is one row, with one label. */
export interface TrainFolderOptions extends PlaceOptions, PhotoOptions {
  /** The ONNX file to write. The page is written beside it, as `OUT.html`, and the preprocessing and the labels, as `OUT.tapir.json`. */
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
   * Photos per step, an integer from 1 to 4096; in a group, over all ranks.
   * @default 8
   */
  readonly batch: number;
  /**
   * How weights change, as for {@link createTrainer}.
   * @default 'adam'
   */
  readonly optimizer: OptimizerLike;
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
   * The processes that train together, from {@link joinGroup} or {@link localGroups}. Rank r takes every size-th photo of each batch, from
   * the r-th on: as torch's DistributedSampler where the size divides the batch. Rank 0 writes, and its result is that of all.
   * @default undefined, this process alone
   */
  readonly group: ProcessGroup | undefined;
  /**
   * What happens to photos of an epoch that ranks cannot share equally: each is trained on once, so that some ranks have one less in the
   * last batch (`'keep'`); the first photos of the epoch are repeated, as DistributedSampler does (`'pad'`); or the last ones are left
   * out, as with its `drop_last` (`'drop'`).
   * @default 'keep'
   */
  readonly uneven: Uneven;
  /**
   * Called for everything that happens. Its errors end the training.
   * @default undefined
   */
  readonly onEvent: ((event: TrainEvent) => void) | undefined;
}

const ONE_ROW =
  'a photo has one label and is one row; make a folder of photos of them, or train on tensors with createTrainer';

export const TRAIN_FOLDER_FIELDS: Fields<TrainFolderOptions> = {
  ...PLACE_FIELDS,
  out: text(''),
  // What the trainer takes, it checks itself.
  train: unchecked(undefined),
  epochs: integer(1, 100_000, 20, 'passes over the photos'),
  batch: integer(1, 4096, 8, 'photos per step'),
  optimizer: unchecked('adam'),
  schedule: oneOf(
    FOLDER_SCHEDULES,
    'cosine',
    'of the learning rate: cosine to 0, or a tenth after each third',
  ),
  warmup: integer(0, 99_999, 0, 'epochs in which the rate goes up'),
  labelSmoothing: number(0, 1, 0, 'share of targets spread over all classes'),
  batchNorm: TRAINER_FIELDS.batchNorm,
  clipNorm: TRAINER_FIELDS.clipNorm,
  accumulate: TRAINER_FIELDS.accumulate,
  augment: oneOf(AUGMENTATIONS, 'crop-flip', 'random crops and flips of training photos'),
  holdout: {
    ...checkedBy(checkShare, 0.2, 'share of each class that is measured on instead'),
    reads: 'number',
  },
  validation: optional(checkText, 'another folder of classes to measure on'),
  seed: integer(0, Number.MAX_SAFE_INTEGER, 0, 'chooses split, order, crops and a new head'),
  ...photoFields({ tiles: ONE_ROW, clips: ONE_ROW }),
  decodeThreads: integer(0, 1024, 0, 'threads that decode photos; 0 for all cores'),
  state: optional(checkText, 'folder of checkpoints and the log (default: OUT.training)'),
  weights: oneOf(
    ['inline', 'repack'],
    'repack',
    'where weights of other files go: into the written file, or into OUT.data',
  ),
  overwrite: boolean(false, 'replace an earlier result, and start from scratch if that training is finished'),
  group: TRAINER_FIELDS.group,
  uneven: oneOf(
    UNEVEN,
    'keep',
    'photos that ranks cannot share equally: each once, repeat first, leave out last',
  ),
  onEvent: callback(),
};

/** Checked options. */
export interface TrainFolderSetup extends Omit<
  TrainFolderOptions,
  'optimizer' | 'state' | 'onEvent' | 'group'
> {
  readonly optimizer: OptimizerOptions;
  readonly state: string;
  readonly group: ProcessGroup;
  readonly tell: (event: TrainEvent) => void;
}

/** Reads options. Throws `OPTION_INVALID`. */
export function readTrainFolderOptions(given: Options<TrainFolderOptions>): TrainFolderSetup {
  const read = readOptions(TRAIN_FOLDER_FIELDS, given, 'trainFolder');
  const { onEvent, ...options } = read;
  const { out, validation } = options;
  if (validation !== undefined)
    refuseUnused(TRAIN_FOLDER_FIELDS, read, ['holdout'], 'a training with another folder to measure on');
  return {
    ...options,
    state: options.state ?? `${out}.training`,
    optimizer: readOptimizerOptions(options.optimizer),
    group: options.group ?? ALONE,
    warmup: checkInteger('warmup', options.warmup, 0, options.epochs - 1),
    holdout: validation === undefined ? options.holdout : 0,
    decodeThreads: options.decodeThreads || availableParallelism(),
    tell: (event) => onEvent?.(event),
  };
}

function checkShare(option: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value < 1) return value;
  throw invalidOption(option, 'a number from 0 to below 1', value);
}

/** The rate of an epoch's first step where warm-up begins. */
const WARMUP_START = 0.01;

/** The schedule over steps; undefined where the rate stays the same. */
export function scheduleOf(
  { schedule, warmup, epochs }: Pick<TrainFolderSetup, 'schedule' | 'warmup' | 'epochs'>,
  stepsPerEpoch: number,
): ScheduleLike | undefined {
  const warm = warmup * stepsPerEpoch;
  const steps = (epochs - warmup) * stepsPerEpoch;
  const main = mainSchedule(schedule, steps, Math.ceil(steps / 3));
  if (warm === 0) return main;
  const rise = { kind: 'linear', startFactor: WARMUP_START, steps: warm } as const;
  const rest = main ?? ({ kind: 'constant', factor: 1 } as const);
  return { kind: 'sequential', schedules: [rise, rest], milestones: [warm] };
}

function mainSchedule(schedule: FolderSchedule, steps: number, stepSize: number): ScheduleLike | undefined {
  if (schedule === 'none') return undefined;
  return schedule === 'cosine' ? { kind: 'cosine', steps } : { kind: 'step', stepSize };
}
