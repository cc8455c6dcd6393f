/** The part of the public API that does something with extractors and datasets: search, report, explore, serve, compare; index.ts re-exports it. */
export { attribute, type GivenAttributeOptions, type ImageAttribution } from './explain/photos/attribute.js';
export type { ReportOptions } from './pages/report/report-options.js';
export { writeReport, type ReportSummary } from './pages/report/write-report.js';
export { type GivenReportHeatmaps, type ReportHeatmaps } from './pages/report/sections/heatmaps.js';
export { writeExplorer, type ExplorerOptions, type ExplorerSummary } from './pages/explore/write-explorer.js';
export { drawHeatmap, type DrawnImage, type DrawOptions } from './explain/photos/draw-heatmap.js';
export { searchDataset, type SearchHit, type SearchOptions } from './features/search/search-dataset.js';
export { findDuplicates, type DuplicateOptions, type Duplicates } from './features/dedupe/find-duplicates.js';
export {
  type DuplicateCopy,
  type DuplicateGroup,
  type DuplicateImage,
} from './features/dedupe/describe-groups.js';
export { type QueryParts, type SearchQuery } from './features/search/search-query.js';
export { classifyZeroShot, type ZeroShotLabel, type ZeroShotOptions } from './features/search/zero-shot.js';
export { type Metric } from './features/search/metric.js';
export { createService, type ListenOptions, type Service } from './serve/service.js';
export { type ServiceOptions } from './serve/batches/service-options.js';
export { compareModels, type CompareOptions } from './precision/compare/compare-models.js';
export {
  type ComparedFailure,
  type ComparedModel,
  type ComparedOutput,
  type ModelComparison,
} from './precision/compare/comparison.js';
export { type Agreement, type ComparedImage } from './precision/compare/compare-outputs.js';
export { type PixelAgreement, type TransformDifference } from './precision/compare/compare-pixels.js';
export { type ComparedSource } from './precision/compare/open-sides.js';
export { quantizeModel, type QuantizedModel, type QuantizeOptions } from './precision/quantize-model.js';
export {
  createTextEncoder,
  type EncodeTextOptions,
  type TextEncoderOptions,
  type TextTower,
} from './features/text/text-encoder.js';
export { encodeLabels, type EncodeLabelsOptions } from './features/text/class-vectors.js';
export { attachProbe } from './features/probe/attach-probe.js';
export {
  classifyImages,
  type ClassifiedImage,
  type ClassifyOptions,
  type ImageClass,
} from './features/probe/classify-images.js';
export { readProbe, saveProbe, type SaveProbeOptions } from './features/probe/probe-file.js';
export { trainProbe, type TrainProbeOptions } from './features/probe/train-probe.js';
export { type ProbeLabels } from './features/probe/rows/labels.js';
export {
  predictProbe,
  type LinearProbeHead,
  type NeighbourProbeHead,
  type Probe,
  type ProbeHead,
  type ProbeKind,
  type ProbePrediction,
  type ProbeResults,
  type ProbeSource,
  type StrengthResult,
  type SuspectImage,
} from './features/probe/probe.js';
export {
  type Calibration,
  type CalibrationBin,
  type ClassResult,
  type Suspect,
} from './features/probe/fit/evaluate.js';
export { type VectorNorm } from './features/probe/rows/labelled-rows.js';
export { type ClassScorer } from './features/probe/rows/linear-scores.js';
