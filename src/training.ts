/** The part of the public API that trains models; index.ts re-exports it. */
export { trainFolder, type TrainedFolder } from './train/folder/train-folder.js';
export {
  type Augmentation,
  type FolderSchedule,
  type GivenTrainFolderOptions,
  type TrainFolderOptions,
} from './train/folder/train-folder-options.js';
export { type EpochRecord, type Score, type TrainEvent } from './train/folder/training-records.js';
export { type TrainFailure } from './train/folder/training-photos.js';
export { createTrainer } from './train/create-trainer.js';
export {
  type Evaluation,
  type EvaluationSource,
  type StepResult,
  type TrainBatch,
  type Trainer,
  type TrainRunOptions,
} from './train/trainer.js';
export {
  type BatchNormTraining,
  type GivenTrainerOptions,
  type ParameterGroup,
  type TrainerOptions,
} from './train/runs/trainer-options.js';
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
} from './train/losses/loss-options.js';
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
} from './train/optimizers/optimizer-options.js';
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
} from './train/optimizers/schedule-options.js';
export { type Target } from './train/losses/targets.js';
