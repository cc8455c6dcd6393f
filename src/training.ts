/** The part of the public API that trains models; index.ts re-exports it. */
export { trainFolder, type TrainedFolder } from './apps/train/train-folder.js';
export {
  type Augmentation,
  type FolderSchedule,
  type GivenTrainFolderOptions,
  type TrainFolderOptions,
} from './apps/train/train-folder-options.js';
export { type EpochRecord, type Score, type TrainEvent } from './apps/train/training-records.js';
export { type TrainFailure } from './apps/train/training-photos.js';
export { createTrainer } from './extract/train/create-trainer.js';
export {
  type Evaluation,
  type EvaluationSource,
  type StepResult,
  type TrainBatch,
  type Trainer,
  type TrainRunOptions,
} from './extract/train/trainer.js';
export {
  type BatchNormTraining,
  type GivenTrainerOptions,
  type ParameterGroup,
  type TrainerOptions,
} from './extract/train/trainer-options.js';
export type {
  AbsoluteLoss,
  BinaryCrossEntropyLoss,
  CosineLoss,
  CrossEntropyLoss,
  DivergenceLoss,
  GivenLoss,
  HuberLoss,
  Loss,
  LossReduction,
  NegativeLogLikelihoodLoss,
  SmoothL1Loss,
  SquaredLoss,
} from './extract/train/losses/loss-options.js';
export type {
  AdagradOptions,
  AdamOptions,
  AdamWOptions,
  CommonOptimizerOptions,
  GivenOptimizer,
  MomentOptions,
  OptimizerKind,
  OptimizerOptions,
  RmsPropOptions,
  SgdOptions,
} from './extract/train/optimizers/optimizer-options.js';
export type {
  ConstantSchedule,
  CosineRestartsSchedule,
  CosineSchedule,
  ExponentialSchedule,
  GivenSchedule,
  LinearSchedule,
  MultiStepSchedule,
  NamedSchedule,
  OneCycleSchedule,
  PolynomialSchedule,
  SequentialSchedule,
  StepSchedule,
} from './extract/train/optimizers/schedule-options.js';
export { type Target } from './extract/train/losses/targets.js';
