/** Training, and statistics of BatchNorm. */
export {
  estimateBatchNorm,
  measureMoments,
  mergeBatchNorm,
  type EstimateBatchNormOptions,
  type MeasureMomentsOptions,
  type WithFailures,
} from './statistics/estimate-batch-norm.js';
export type { EstimateOptions } from './statistics/estimate-options.js';
export type { BatchNormEstimate, EstimatedNorm } from './statistics/estimate-statistics.js';
export type { BatchNormMode } from './statistics/modes.js';
export type { Momentum } from './statistics/channel-moments.js';
export type { BatchNormMoments } from './statistics/saved-moments.js';
export { trainFolder, type TrainedFolder } from './folder/train-folder.js';
export type { Augmentation, TrainFolderOptions } from './folder/train-folder-options.js';
export type { EpochRecord, TrainEvent } from './folder/training-records.js';
export { createTrainer } from './create-trainer.js';
export type {
  Evaluation,
  EvaluationSource,
  StepResult,
  TrainBatch,
  TrainRunOptions,
} from './trainer-calls.js';
export type { Trainer } from './trainer.js';
export { joinGroup } from './ranks/join-group.js';
export { localGroups, type GroupOptions } from './ranks/local-groups.js';
export type { ProcessGroup } from './ranks/process-group.js';
export type { ParameterGroup, TrainerOptions } from './runs/trainer-options.js';
export type { Loss } from './losses/loss-options.js';
export type { OptimizerKind, OptimizerOptions } from './optimizers/optimizer-options.js';
export type { NamedSchedule } from './optimizers/schedule-options.js';
export type { Target } from './losses/targets.js';
