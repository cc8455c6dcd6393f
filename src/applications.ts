/** The part of the public API that does something with extractors and datasets: search, report, explore, serve, compare; index.ts re-exports it. */
export {
  attribute,
  type GivenAttributeOptions,
  type ImageAttribution,
} from './apps/attribution/attribute.js';
export type { ReportOptions } from './apps/report/report-options.js';
export { writeReport, type ReportSummary } from './apps/report/write-report.js';
export { type GivenReportHeatmaps, type ReportHeatmaps } from './apps/report/heatmaps.js';
export { writeExplorer, type ExplorerOptions, type ExplorerSummary } from './apps/explore/write-explorer.js';
export { drawHeatmap, type DrawnImage, type DrawOptions } from './apps/attribution/draw-heatmap.js';
export { searchDataset, type SearchHit, type SearchOptions } from './apps/search/search-dataset.js';
export { findDuplicates, type DuplicateOptions, type Duplicates } from './apps/dedupe/find-duplicates.js';
export {
  type DuplicateCopy,
  type DuplicateGroup,
  type DuplicateImage,
} from './apps/dedupe/describe-groups.js';
export { type QueryParts, type SearchQuery } from './apps/search/search-query.js';
export { classifyZeroShot, type ZeroShotLabel, type ZeroShotOptions } from './apps/search/zero-shot.js';
export { type Metric } from './apps/search/metric.js';
export { createService, type ListenOptions, type Service } from './apps/serve/service.js';
export { type ServiceOptions } from './apps/serve/service-options.js';
export { compareModels, type CompareOptions } from './apps/compare/compare-models.js';
export {
  type ComparedFailure,
  type ComparedModel,
  type ComparedOutput,
  type ModelComparison,
} from './apps/compare/comparison.js';
export { type Agreement, type ComparedImage } from './apps/compare/compare-outputs.js';
export { type PixelAgreement, type TransformDifference } from './apps/compare/compare-pixels.js';
export { type ComparedSource } from './apps/compare/open-sides.js';
export { quantizeModel, type QuantizedModel, type QuantizeOptions } from './apps/learn/quantize-model.js';
export {
  createTextEncoder,
  type EncodeTextOptions,
  type TextEncoderOptions,
  type TextTower,
} from './text/text-encoder.js';
export { encodeLabels, type EncodeLabelsOptions } from './text/class-vectors.js';
export { attachProbe } from './apps/probe/attach-probe.js';
export {
  classifyImages,
  type ClassifiedImage,
  type ClassifyOptions,
  type ImageClass,
} from './apps/probe/classify-images.js';
export { readProbe, saveProbe, type SaveProbeOptions } from './apps/probe/probe-file.js';
export { trainProbe, type TrainProbeOptions } from './apps/probe/train-probe.js';
export { type ProbeLabels } from './apps/probe/labels.js';
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
} from './apps/probe/probe.js';
export {
  type Calibration,
  type CalibrationBin,
  type ClassResult,
  type Suspect,
} from './apps/probe/evaluate.js';
export { type VectorNorm } from './apps/probe/labelled-rows.js';
export { type ClassScorer } from './apps/probe/linear-scores.js';
