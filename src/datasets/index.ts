/** The door of this room: photos through a model, and datasets as products read them. */
export { recordTransform } from './embed/describe-run.js';
export { embedItems, type EmbeddedItem } from './embed/embed-images.js';
export {
  EMBED_FIELDS,
  ONE_ROW_FIELDS,
  setUpEmbedding,
  type EmbedSetup,
  type OneRowOptions,
} from './embed/embed-options.js';
export { readFirstPhotos } from './embed/first-photos.js';
export { PHOTO_FIELDS } from './embed/photo-batches.js';
export { planPhotos, type PhotoPlan } from './embed/photo-places.js';
export { openPhotoSample } from './embed/photo-sample.js';
export { compareBatches } from './embed/precision-check.js';
export { noteAssumed, openRecordedModel, readRecordedModel } from './embed/recorded-model.js';
export { partsOf, readRecipe } from './embed/recorded-recipe.js';
export { readBegunChoice } from './files/begun-choice.js';
export { removeColumn, saveColumn } from './files/saved-columns.js';
export { encodeNpy, NPY_MAGIC, parseNpy } from './formats/npy.js';
export { placeCells } from './formats/saved-columns.js';
export { textOf } from './labels/label-tables.js';
export { NO_LABEL, readLabels, type ProbeLabels, type RowLabels } from './labels/labels.js';
export {
  countRows,
  hasParts,
  readInputOfRows,
  readLiveRows,
  readPaths,
  readPlaces,
} from './labels/live-rows.js';
export { readRowsWhere, WHERE } from './labels/where.js';
export type { EngineCandidate, EngineChoice } from './records/engine-choice.js';
export { describeCosines, leastCosine, type Float32Comparison } from './records/float32-comparison.js';
export type { TransformRecord } from './records/run-record.js';
export { readPattern } from './sources/folders/pattern.js';
export { sampleSource } from './sources/sample-source.js';
