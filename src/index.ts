/** The public API of onnx-tapir. */
export {
  TapirError,
  isTapirError,
  type ErrorCode,
  type ErrorDetails,
  type ImageErrorCode,
} from './base/errors.js';
export { type Options } from './base/checks.js';
export {
  openModel,
  getGraphNodeNames,
  type OnnxModel,
  type OpenOptions,
  type ModelSource,
  type NodeInfo,
} from './model/open-model.js';
export { pruneModel } from './model/oracle/prune-model.js';
export {
  splitModel,
  type Crossing,
  type ModelStage,
  type ModelStages,
  type SplitOptions,
  type SplitPlaces,
} from './model/oracle/split-model.js';
export { type PruneOptions } from './model/cut-model.js';
export { type PrunedModel } from './model/pruned-model.js';
export { type SaveOptions } from './model/save-whole.js';
export {
  type RewriteOptions,
  type ImageInput,
  type OutputDtype,
  type PerOutput,
  type Pool,
} from './model/rewrite-options.js';
export { loadStateDict, type LoadStateOptions } from './model/parameters/load-state-dict.js';
export type { LoadReport } from './model/parameters/loading.js';
export type { Parameter, ParameterOrigin } from './model/named-parameters.js';
export { readStateDict, type ReadStateOptions } from './model/parameters/read-state-dict.js';
export { type StateDict } from './model/parameters/state-dict.js';
export { type StateTensor } from './model/parameters/state-tensor.js';
export { type StoredType } from './model/parameters/stored-types.js';
export { createModel, type CreateOptions } from './hub/zoo/create-model.js';
export { listModels } from './hub/zoo/architectures.js';
export {
  writeStateDict,
  type StateSource,
  type WriteStateOptions,
} from './model/parameters/write-state-dict.js';
export { featureInfo } from './model/oracle/feature-info.js';
export {
  profileModel,
  type Cost,
  type ModelProfile,
  type ModuleCost,
  type NodeCost,
  type ProfileOptions,
  type Uncounted,
} from './model/oracle/profile-model.js';
export {
  differentiate,
  type DifferentiateOptions,
  type GivenDifferentiateOptions,
} from './model/oracle/differentiate.js';
export {
  lowerPrecision,
  type LoweredModel,
  type LoweredPrecision,
  type LoweringOptions,
} from './model/precision/lower-precision.js';
export { type KeptNode, type LoweringReport, type MeasuredCosine } from './model/precision/report.js';
export { type ElementCounts } from './model/oracle/model-costs.js';
export { verifyModel } from './model/oracle/verify.js';
export {
  type FedInput,
  type VerifyOptions,
  type VerifyReport,
  type VerifiedOutput,
} from './model/oracle/compare-pruned.js';
export { type InputSizes } from './model/input-sizes.js';
export {
  type PrunePlan,
  type PartList,
  type AddedParts,
  type BatchPlan,
  type ResolvedRequest,
} from './graph/rewrite/plan.js';
export { type ImageNormalization } from './graph/rewrite/image-input.js';
export { type ReturnNodes, type KeysOf } from './model/return-nodes.js';
export {
  createFeatureExtractor,
  type ExtractorOf,
  type ExtractorSource,
  type FeatureExtractorOptions,
  type GivenExtractorOptions,
  type OutputType,
  type SourceKey,
  type SourceType,
} from './extract/create-feature-extractor.js';
export { FeatureExtractor } from './extract/feature-extractor.js';
export {
  createAttribution,
  type Attribution,
  type AttributionResult,
  type AttributionRunOptions,
} from './extract/attribution/attribution.js';
export { type AttributionOptions, type GivenAttributionOptions } from './extract/attribution/options.js';
export { type AttributionMethod, type InputMethod, type LayerMethod } from './extract/attribution/methods.js';
export { type Baseline } from './extract/attribution/input-gradients.js';
export { type PathRule } from './extract/attribution/quadrature.js';
export { type AttributionTarget, type SeedOfRow } from './extract/attribution/targets.js';
export {
  createEarlyExit,
  type AnytimeResult,
  type EarlyExit,
  type EarlyExitOptions,
  type EarlyExitResult,
  type EarlyExitRunOptions,
  type Exit,
  type GivenEarlyExitOptions,
} from './extract/stages/early-exit.js';
export type { ExitHead, ExitPlace } from './extract/stages/exit-model.js';
export type { Criterion, ExitRow, Until } from './extract/stages/until.js';
export {
  Pipeline,
  type GivenPipelineOptions,
  type PipelineOptions,
  type PipelineStage,
} from './extract/stages/pipeline.js';
export {
  DataParallel,
  type DataParallelOptions,
  type ParallelRunOptions,
  type ReplicaInfo,
} from './extract/data-parallel.js';
export { type ParallelOptions } from './extract/parallel-options.js';
export {
  estimateBatchNorm,
  measureMoments,
  mergeBatchNorm,
  type EstimateBatchNormOptions,
  type MeasureMomentsOptions,
  type WithFailures,
} from './apps/learn/estimate-batch-norm.js';
export { type LearnSource, type PhotoFailure, type PhotoOptions } from './apps/learn/photo-batches.js';
export * from './training.js';
export * from './applications.js';
export { type PlaceOptions } from './extract/place-options.js';
export { type EstimateOptions, type FoldedOptions } from './extract/statistics/estimate-options.js';
export { type BatchNormEstimate, type EstimatedNorm } from './extract/statistics/estimate-statistics.js';
export { type BatchNormMode } from './extract/statistics/modes.js';
export { type Momentum } from './extract/statistics/running-statistics.js';
export { type BatchNormMoments } from './extract/statistics/saved-moments.js';
export { type BatchSource, type BatchSplit } from './extract/batch-pieces.js';
export { type RunInput, type NestedFeeds, type RunOptions } from './extract/run-options.js';
export { chunkSizes, type Split } from './tensor/split.js';
export { type LaneDeathPolicy } from './runtime/lane-pool.js';
export { type Extractor } from './extract/extractor.js';
export {
  measureModel,
  type BatchMeasurement,
  type MeasureModelOptions,
  type MeasureModelReport,
} from './extract/measure-model.js';
export { type EngineName, type LaneOptions, type Precision } from './runtime/lane-options.js';
export type { TensorInfo } from './tensor/tensor-info.js';
export { type FeatureInfo, type Layout } from './model/feature-info.js';
export {
  type Tensor,
  type TensorOf,
  type TensorLike,
  type TensorData,
  type DataByType,
  type DType,
  type Float16View,
} from './tensor/tensor.js';
export { type Device, type DeviceSpec, type DeviceType } from './runtime/device.js';
export {
  listDevices,
  type AnyDevice,
  type CpuDevice,
  type CudaDevice,
  type DeviceInfo,
  type WebGpuDevice,
} from './runtime/devices/device-list.js';
export { type MigSlice } from './runtime/devices/gpu.js';
export {
  diagnose,
  type DiagnoseOptions,
  type Diagnosis,
  type ProbedDevice,
} from './runtime/devices/diagnose.js';
export { type ProbedEngine } from './runtime/devices/probe-engines.js';
export { type ProbeResult } from './runtime/devices/probe.js';
export { type DeviceFile } from './runtime/devices/driver-files.js';
export { type DriverVersions } from './runtime/devices/nvidia-smi.js';
export { type ProviderFile, type ProviderFiles } from './runtime/devices/provider-library.js';
export { type SessionOptions } from './runtime/session-options.js';
export { embedImages, type Embedded } from './embed/embed-images.js';
export { type ImageError } from './embed/loader.js';
export {
  measureEmbedding,
  type EmbeddingReport,
  type MeasureEmbeddingOptions,
  type Throughput,
} from './embed/measure/measure-embedding.js';
export {
  createTransform,
  type FloatImage,
  type Transform,
  type TransformLike,
  type TransformSource,
} from './image/transform.js';
export { loadImage, type LoadedImage } from './image/load-image.js';
export { findTransform, type FoundTransform, type TransformRequest } from './image/configs/find-transform.js';
export { type ModelConfig } from './image/configs/hugging-face.js';
export { type Backend } from './image/configs/resolved-config.js';
export { transformFromConfig, type ConfigReading } from './image/configs/transform-from-config.js';
export {
  type ChannelNumbers,
  type TransformOptions,
  type TransformPreset,
} from './image/transform-options.js';
export { type DecodeMode, type DecodeOptions } from './image/decode/decode-options.js';
export { type Reduction } from './image/decode/reduction.js';
export {
  type CropOffset,
  type EdgeLimits,
  type RatioFit,
  type ResizeTarget,
  type Size,
} from './image/pixels/geometry.js';
export { type RgbImage } from './image/pixels/rgb-image.js';
export { type Interpolation } from './image/resample/kernel.js';
export { type Colour } from './image/resample/resample.js';
export { embedStream, type EmbedStream, type Written } from './embed/streams/embed-stream.js';
export { embedTransformStream, type EmbedTransformStream } from './embed/streams/embed-transform-stream.js';
export { type EmbedStreamOptions, type StreamInput, type StreamRow } from './embed/streams/row-pipe.js';
export { type EmbedSource, type ListedImage, type PathStream } from './sources/open-source.js';
export { type SourceOptions } from './sources/items/source-options.js';
export { type EmbedOptions } from './embed/embed-options.js';
export { type ImageSource } from './image/file/image-source.js';
export { measureDeviation, type Deviation } from './image/deviation.js';
export { embedFolder, type EmbedFailure, type EmbedSummary } from './embed/embed-folder.js';
export { type EmbedFolderOptions } from './embed/embed-folder-options.js';
export { type MaxFailures } from './embed/failure-limit.js';
export { type FeatureFormat } from './dataset/formats/feature-files.js';
export { type InputFormat } from './sources/records/source-record.js';
export { type FileStamp } from './base/file-stamp.js';
export { type EmbedProgress } from './embed/progress.js';
export { type InputCounts } from './dataset/dataset-inputs.js';
export { openDataset, type BlockOptions, type Dataset, type FeatureBlock } from './dataset/dataset.js';
export { type DatasetRow } from './dataset/formats/metadata.js';
export {
  type FeatureRecord,
  type Manifest,
  type ShardRecord,
  type SourceRecord,
} from './dataset/manifest.js';
export {
  type DecoderRecord,
  type ModelIdentity,
  type RequestRecord,
  type RunWeights,
  type SizeRecord,
  type TransformRecord,
  type WeightsRecord,
} from './dataset/run-record.js';
export { type JournalRun, type ShardFeatures } from './dataset/journal.js';
export { type Float32Comparison, type OutputCosines } from './dataset/float32-comparison.js';
export { type ReductionSummary } from './dataset/reduced-images.js';
export { distributedSampler, type SamplerOptions } from './sources/sampling/distributed-sampler.js';
export { mergeDataset, type MergeOptions } from './embed/merge-dataset.js';
export { type MergeSummary } from './dataset/merge.js';
export { type Shard } from './dataset/input-names.js';
export { listKnownModels, type KnownModelsOptions, type ListedModel } from './hub/list-known-models.js';
export { type KnownModel, type KnownModelFile, type KnownTransform } from './hub/known-models.js';
export { pullTorchvision, type PullTorchvisionOptions } from './hub/zoo/pull-torchvision.js';
export { pullTimm, type PullTimmOptions } from './hub/zoo/pull-timm.js';
export { pullModel, type PullOptions } from './hub/pull-model.js';
export { type PulledFile, type PulledModel } from './hub/pulled-model.js';
export { type DownloadOptions, type DownloadProgress } from './hub/download-file.js';
export { installEngine, type InstallOptions } from './hub/wheels/install-engine.js';
export { type InstalledEngine, type InstalledWheel } from './hub/wheels/installed-engine.js';
export { type InstallableEngine } from './base/engine-packages.js';
export { type UnreadCounts } from './sources/items/unread-files.js';
