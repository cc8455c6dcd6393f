/** The main job: extract features, run them on devices, embed photos. Each other job has an entry: `onnx-tapir/train` … */
export { TapirError, isTapirError, type ErrorCode, type ErrorDetails } from './base/errors.js';
export type { Options } from './base/checks.js';
export {
  openModel,
  getGraphNodeNames,
  type OnnxModel,
  type OpenOptions,
  type ModelSource,
  type NodeInfo,
} from './run/model/open/open-model.js';
export { pruneModel, type PruneOptions } from './extract/prune-model.js';
export type { PrunedModel } from './run/model/prune/pruned-model.js';
export type { SaveOptions } from './run/model/open/save-whole.js';
export type { Parameter, ParameterOrigin } from './run/model/open/named-parameters.js';
export { verifyModel, type VerifyOptions, type VerifyReport } from './run/model/oracle/verify.js';
export type { InputSizes } from './run/model/open/input-sizes.js';
export type { PrunePlan, ResolvedRequest } from './onnx/graph/rewrite/plan.js';
export type { ReturnNodes, KeysOf } from './run/model/open/return-nodes.js';
export { createFeatureExtractor, type ExtractorOf } from './extract/create-feature-extractor.js';
export type { FeatureExtractorOptions } from './extract/extractor-options.js';
export type { ExtractorSource } from './extract/prune-source.js';
export { FeatureExtractor } from './extract/feature-extractor.js';
export {
  DataParallel,
  type DataParallelOptions,
  type ParallelRunOptions,
  type ReplicaInfo,
} from './extract/data-parallel.js';
export type { ParallelOptions } from './extract/replicas/parallel-options.js';
export type { LearnSource, PhotoBatchOptions, PhotoFailure } from './datasets/embed/photo-batches.js';
export type { RunInput, RunOptions } from './extract/replicas/run-options.js';
export { chunkSizes, type Split } from './extract/replicas/split.js';
export type { Extractor } from './extract/extractor.js';
export type { EmbedPhotoOptions } from './extract/replicas/photo-embedder.js';
export type { EngineName, Precision } from './run/runtime/capabilities/capabilities.js';
export type { TensorInfo } from './onnx/tensor/tensor-info.js';
export type { FeatureInfo } from './run/model/prune/feature-info.js';
export type { TokenPart, TokenParts, TokenRange } from './onnx/graph/token-parts.js';
export type { Tensor, TensorOf, TensorLike, TensorData, DType } from './onnx/tensor/tensor.js';
export type { Device } from './run/runtime/lanes/device.js';
export { listDevices, type DeviceInfo } from './run/runtime/devices/device-list.js';
export type { CudaOptions, SessionOptions } from './run/runtime/lanes/session-options.js';
export { embedImages, type Embedded } from './datasets/embed/embed-images.js';
export type { ImageError } from './photos/images/file/image-errors.js';
export { createTransform, type TransformLike } from './photos/feeds/create-transform.js';
export type { Transform, TransformSource } from './photos/images/transform/transform.js';
export type { FloatImage } from './photos/images/transform/float-image.js';
export { loadClip, type ClipOptions, type LoadedClip } from './photos/feeds/load-clip.js';
export { loadImage, type LoadImageOptions } from './photos/feeds/load-image.js';
export type { LoadedImage } from './photos/images/transform/load-pixels.js';
export { collateImages } from './photos/images/transform/collate-images.js';
export { loadTiles } from './photos/feeds/load-tiles.js';
export type { LoadedTile } from './photos/images/transform/read-tiles.js';
export type { ClipCutOptions } from './photos/images/transform/clip-options.js';
export type { TileOptions } from './photos/images/transform/tile-options.js';
export type { Tile } from './photos/images/pixels/tile-grid.js';
export { findTransform, type FoundTransform } from './photos/images/configs/find-transform.js';
export type { PhotoOptions } from './photos/feeds/photo-options.js';
export type { PartialTransform, TransformChoice, TransformRequest } from './photos/feeds/choose-transform.js';
export type { Backend } from './photos/images/configs/config-fields.js';
export { transformFromConfig, type ConfigReading } from './photos/images/configs/transform-from-config.js';
export type { TransformOptions, TransformPreset } from './photos/images/transform/transform-options.js';
export type { DecodeOptions } from './photos/images/decode/decode-options.js';
export type { Size } from './photos/images/pixels/geometry.js';
export type { NaflexPatches, PatchOptions, QwenPatches } from './photos/images/patches/patch-processors.js';
export type { RgbImage } from './photos/images/pixels/rgb-image.js';
export type { Interpolation } from './photos/images/resample/kernel.js';
export { embedStream, type EmbedStream, type Written } from './datasets/streams/embed-stream.js';
export {
  embedTransformStream,
  type EmbedTransformStream,
} from './datasets/streams/embed-transform-stream.js';
export type { EmbedStreamOptions, StreamInput, StreamRow } from './datasets/streams/row-pipe.js';
export type { EmbedSource, ListedImage, PathStream } from './datasets/sources/open-source.js';
export type { PhotoRow } from './datasets/sources/photo-rows.js';
export type { PhotoName, SourceOptions } from './photos/feeds/items/source-options.js';
export type { RequestHeaders } from './base/http/request-headers.js';
export type { EmbedOptions } from './datasets/embed/embed-options.js';
export type { ImageSource } from './photos/images/formats/image-source.js';
export type { DecodedPixels } from './photos/images/formats/decoded-pixels.js';
export { embedFolder, type EmbedFailure, type EmbedSummary } from './datasets/embed/embed-folder.js';
export type { EmbedFolderOptions } from './datasets/embed/embed-folder-options.js';
export type { FeatureFormat } from './datasets/formats/feature-files.js';
export type { InputFormat } from './datasets/sources/records/source-record.js';
export type { Progress } from './base/progress.js';
export type { EmbedProgress } from './datasets/embed/progress.js';
export {
  openDataset,
  type BlockOptions,
  type Dataset,
  type DatasetVector,
  type FeatureBlock,
} from './datasets/files/dataset.js';
export type { DatasetRow } from './datasets/formats/metadata.js';
export type { Manifest } from './datasets/files/manifest.js';
export { distributedSampler, type SamplerOptions } from './datasets/sources/sampling/distributed-sampler.js';
export { mergeDataset, type MergeOptions } from './datasets/embed/merge-dataset.js';
export type { MergeSummary } from './datasets/merge/merge.js';
export type { Shard } from './datasets/records/input-names.js';
export { describeFeatures } from './run/model/oracle/describe-features.js';
