/** What is done with vectors: search, duplicates, probes, words. */
export { searchDataset, type SearchHit, type SearchOptions } from './search/search-dataset.js';
export {
  openSearch,
  type DatasetSearch,
  type OpenSearchOptions,
  type QueryOptions,
} from './search/open-search.js';
export { findDuplicates, type DuplicateOptions, type Duplicates } from './dedupe/find-duplicates.js';
export type { DuplicateGroup } from './dedupe/describe-groups.js';
export type { SearchQuery } from './search/search-query.js';
export { classifyZeroShot, type ZeroShotLabel, type ZeroShotOptions } from './search/zero-shot.js';
export type { Metric } from './search/metric.js';
export {
  createTextEncoder,
  type EncodeTextOptions,
  type TextEncoderOptions,
  type TextTower,
} from './text/text-encoder.js';
export { encodeLabels, type EncodeLabelsOptions } from './text/class-vectors.js';
export { attachProbe, type LinearClassifier } from './probe/attach-probe.js';
export {
  classifyImages,
  type ClassifiedImage,
  type ClassifyOptions,
  type ImageClass,
} from './probe/classify-images.js';
export { classifyByWords, type WordsOptions } from './probe/classify-words.js';
export { readProbe, saveProbe, type SaveProbeOptions } from './probe/probe-file.js';
export { trainProbe, type TrainProbeOptions } from './probe/train-probe.js';
export type { ProbeLabels } from '../../datasets/labels/labels.js';
export {
  checkProbe,
  predictProbe,
  type Probe,
  type ProbeHead,
  type ProbeKind,
  type ProbePrediction,
  type ProbeResults,
  type ProbeSource,
} from './probe/probe.js';
