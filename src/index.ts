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
} from './model/open/open-model.js';
export { pruneModel } from './model/oracle/prune-model.js';
export {
  splitModel,
  type Crossing,
  type ModelStage,
  type ModelStages,
  type SplitOptions,
  type SplitPlaces,
} from './stages/split-model.js';
export { type PruneOptions } from './model/prune/cut-model.js';
export { type PrunedModel } from './model/prune/pruned-model.js';
export { type SaveOptions } from './model/open/save-whole.js';
export {
  type RewriteOptions,
  type ImageInput,
  type OutputDtype,
  type PerOutput,
  type Pool,
} from './model/prune/rewrite-options.js';
export { loadStateDict, type LoadStateOptions } from './parameters/load-state-dict.js';
export type { LoadReport } from './parameters/match/loading.js';
export type { Parameter, ParameterOrigin } from './model/open/named-parameters.js';
export { readStateDict, type ReadStateOptions } from './parameters/dicts/read-state-dict.js';
export { type StateDict } from './parameters/state/state-dict.js';
export { type StateTensor } from './parameters/state/state-tensor.js';
export { type StoredType } from './parameters/state/stored-types.js';
export { createModel, type CreateOptions } from './zoo/create-model.js';
export { listModels } from './zoo/architectures.js';
export {
  writeStateDict,
  type StateSource,
  type WriteStateOptions,
} from './parameters/dicts/write-state-dict.js';
export { featureInfo } from './model/oracle/feature-info.js';
export {
  profileModel,
  type Cost,
  type ModelProfile,
  type ModuleCost,
  type NodeCost,
  type ProfileOptions,
  type Uncounted,
} from './stages/profile-model.js';
export {
  differentiate,
  type DifferentiateOptions,
  type GivenDifferentiateOptions,
} from './gradients/differentiate.js';
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
export { type InputSizes } from './model/open/input-sizes.js';
export {
  type PrunePlan,
  type PartList,
  type AddedParts,
  type BatchPlan,
  type ResolvedRequest,
} from './graph/rewrite/plan.js';
export { type ImageNormalization } from './graph/rewrite/image-input.js';
export { type ReturnNodes, type KeysOf } from './model/open/return-nodes.js';
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
} from './explain/attribution.js';
export { type AttributionOptions, type GivenAttributionOptions } from './explain/options.js';
export { type AttributionMethod, type InputMethod, type LayerMethod } from './explain/methods.js';
export { type Baseline } from './explain/input-gradients.js';
export { type PathRule } from './explain/quadrature.js';
export { type AttributionTarget, type SeedOfRow } from './explain/targets.js';
export {
  createEarlyExit,
  type AnytimeResult,
  type EarlyExit,
  type EarlyExitOptions,
  type EarlyExitResult,
  type EarlyExitRunOptions,
  type Exit,
  type GivenEarlyExitOptions,
} from './stages/early-exit.js';
export type { ExitHead, ExitPlace } from './stages/exit-model.js';
export type { Criterion, ExitRow, Until } from './stages/until.js';
export {
  Pipeline,
  type GivenPipelineOptions,
  type PipelineOptions,
  type PipelineStage,
} from './stages/pipeline.js';
export {
  DataParallel,
  type DataParallelOptions,
  type ParallelRunOptions,
  type ReplicaInfo,
} from './extract/data-parallel.js';
export { type ParallelOptions } from './extract/replicas/parallel-options.js';
export {
  estimateBatchNorm,
  measureMoments,
  mergeBatchNorm,
  type EstimateBatchNormOptions,
  type MeasureMomentsOptions,
  type WithFailures,
} from './train/statistics/estimate-batch-norm.js';
export { type LearnSource, type PhotoFailure, type PhotoOptions } from './datasets/embed/photo-batches.js';
export * from './training.js';
export * from './applications.js';
export { type PlaceOptions } from './extract/replicas/place-options.js';
export { type EstimateOptions, type FoldedOptions } from './train/statistics/estimate-options.js';
export { type BatchNormEstimate, type EstimatedNorm } from './train/statistics/estimate-statistics.js';
export { type BatchNormMode } from './train/statistics/modes.js';
export { type Momentum } from './train/statistics/running-statistics.js';
export { type BatchNormMoments } from './train/statistics/saved-moments.js';
export { type BatchSource, type BatchSplit } from './extract/replicas/batch-pieces.js';
export { type RunInput, type NestedFeeds, type RunOptions } from './extract/replicas/run-options.js';
export { chunkSizes, type Split } from './tensor/split.js';
export { type LaneDeathPolicy } from './runtime/lane-pool.js';
export { type Extractor } from './extract/extractor.js';
export {
  measureModel,
  type BatchMeasurement,
  type MeasureModelOptions,
  type MeasureModelReport,
} from './cli/measure/measure-model.js';
export { type EngineName, type LaneOptions, type Precision } from './runtime/lanes/lane-options.js';
export type { TensorInfo } from './tensor/tensor-info.js';
export { type FeatureInfo, type Layout } from './model/prune/feature-info.js';
export {
  type Tensor,
  type TensorOf,
  type TensorLike,
  type TensorData,
  type DataByType,
  type DType,
  type Float16View,
} from './tensor/tensor.js';
export { type Device, type DeviceSpec, type DeviceType } from './runtime/lanes/device.js';
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
export { type SessionOptions } from './runtime/lanes/session-options.js';
export { embedImages, type Embedded } from './datasets/embed/embed-images.js';
export { type ImageError } from './datasets/embed/loader.js';
export {
  measureEmbedding,
  type EmbeddingReport,
  type MeasureEmbeddingOptions,
  type Throughput,
} from './cli/measure/measure-embedding.js';
export {
  createTransform,
  type FloatImage,
  type Transform,
  type TransformLike,
  type TransformSource,
} from './images/transform/transform.js';
export { loadImage, type LoadedImage } from './images/transform/load-image.js';
export {
  findTransform,
  type FoundTransform,
  type TransformRequest,
} from './images/configs/find-transform.js';
export { type ModelConfig } from './images/configs/hugging-face.js';
export { type Backend } from './images/configs/resolved-config.js';
export { transformFromConfig, type ConfigReading } from './images/configs/transform-from-config.js';
export {
  type ChannelNumbers,
  type TransformOptions,
  type TransformPreset,
} from './images/transform/transform-options.js';
export { type DecodeMode, type DecodeOptions } from './images/decode/decode-options.js';
export { type Reduction } from './images/decode/reduction.js';
export {
  type CropOffset,
  type EdgeLimits,
  type RatioFit,
  type ResizeTarget,
  type Size,
} from './images/pixels/geometry.js';
export { type RgbImage } from './images/pixels/rgb-image.js';
export { type Interpolation } from './images/resample/kernel.js';
export { type Colour } from './images/resample/resample.js';
export { embedStream, type EmbedStream, type Written } from './datasets/streams/embed-stream.js';
export {
  embedTransformStream,
  type EmbedTransformStream,
} from './datasets/streams/embed-transform-stream.js';
export { type EmbedStreamOptions, type StreamInput, type StreamRow } from './datasets/streams/row-pipe.js';
export { type EmbedSource, type ListedImage, type PathStream } from './datasets/sources/open-source.js';
export { type SourceOptions } from './datasets/sources/items/source-options.js';
export { type EmbedOptions } from './datasets/embed/embed-options.js';
export { type ImageSource } from './images/file/image-source.js';
export { measureDeviation, type Deviation } from './images/transform/deviation.js';
export { embedFolder, type EmbedFailure, type EmbedSummary } from './datasets/embed/embed-folder.js';
export { type EmbedFolderOptions } from './datasets/embed/embed-folder-options.js';
export { type MaxFailures } from './datasets/embed/failure-limit.js';
export { type FeatureFormat } from './datasets/formats/feature-files.js';
export { type InputFormat } from './datasets/sources/records/source-record.js';
export { type FileStamp } from './base/file-stamp.js';
export { type EmbedProgress } from './datasets/embed/progress.js';
export { type InputCounts } from './datasets/files/dataset-inputs.js';
export { openDataset, type BlockOptions, type Dataset, type FeatureBlock } from './datasets/files/dataset.js';
export { type DatasetRow } from './datasets/formats/metadata.js';
export {
  type FeatureRecord,
  type Manifest,
  type ShardRecord,
  type SourceRecord,
} from './datasets/files/manifest.js';
export {
  type DecoderRecord,
  type ModelIdentity,
  type RequestRecord,
  type RunWeights,
  type SizeRecord,
  type TransformRecord,
  type WeightsRecord,
} from './datasets/records/run-record.js';
export { type JournalRun, type ShardFeatures } from './datasets/files/journal.js';
export { type Float32Comparison, type OutputCosines } from './datasets/records/float32-comparison.js';
export { type ReductionSummary } from './datasets/records/reduced-images.js';
export { distributedSampler, type SamplerOptions } from './datasets/sources/sampling/distributed-sampler.js';
export { mergeDataset, type MergeOptions } from './datasets/embed/merge-dataset.js';
export { type MergeSummary } from './datasets/merge/merge.js';
export { type Shard } from './datasets/records/input-names.js';
export { listKnownModels, type KnownModelsOptions, type ListedModel } from './hub/list-known-models.js';
export { type KnownModel, type KnownModelFile, type KnownTransform } from './hub/known-models.js';
export { pullTorchvision, type PullTorchvisionOptions } from './zoo/pull-torchvision.js';
export { pullTimm, type PullTimmOptions } from './zoo/pull-timm.js';
export { pullModel, type PullOptions } from './hub/pull-model.js';
export { type PulledFile, type PulledModel } from './hub/pulled-model.js';
export { type DownloadOptions, type DownloadProgress } from './hub/download-file.js';
export { installEngine, type InstallOptions } from './hub/wheels/install-engine.js';
export { type InstalledEngine, type InstalledWheel } from './hub/wheels/installed-engine.js';
export { type InstallableEngine } from './base/engine-packages.js';
export { type UnreadCounts } from './datasets/sources/items/unread-files.js';
