/** A model in parts: stages, pipelines, early exits, and what each node costs. */
export {
  splitModel,
  type ModelStage,
  type ModelStages,
  type SplitOptions,
  type SplitPlaces,
  type StageSpan,
} from './split-model.js';
export {
  profileModel,
  type Cost,
  type ModelProfile,
  type ModuleCost,
  type NodeCost,
  type ProfileOptions,
} from './profile-model.js';
export {
  createEarlyExit,
  type AnytimeResult,
  type EarlyExit,
  type EarlyExitOptions,
  type EarlyExitResult,
  type EarlyExitRunOptions,
  type Exit,
} from './early-exit.js';
export type { Criterion, ExitRow, Until } from './until.js';
export { Pipeline, type PipelineStage, type StageSpent } from './pipeline.js';
export type { PipelineOptions, PipelineRequest, StagePlace } from './pipeline-options.js';
