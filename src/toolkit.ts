/**
 * What products build on beside the public entries: the model, its sessions and its pictures. It stands on all rooms up to `extract`, and
 * hands out single names, at most 60. Some rooms below products have a door of their own, `index.ts`. `base` and `tensor` know no model;
 * the others are `linear`, `lowering`, `maps`, `structure` and `datasets`. `test/architecture.test.ts` checks that products import
 * nothing else, and that each name has a user.
 */

// What a model is asked.
export { Internals } from './model/open/internals.js';
export { modelPathOf, OnnxModel, readModel } from './model/open/open-model.js';
export { checkIdentity, identifyFile } from './model/prune/identify-model.js';
export { findEnds, findPlaces } from './model/oracle/find-ends.js';
export { readPoolingHead, type PoolingWeights } from './model/read-pooling-head.js';
export { readLogitSettings, type LogitSettings } from './model/read-logit-settings.js';
export { inputsOf } from './model/prune/pruned-model.js';
export { findGrid } from './graph/rewrite/token-grid.js';

// Sessions: where they run, and what a call takes over from an extractor.
export { DEVICE } from './runtime/lanes/device.js';
export { LANE_FIELDS, readLaneOptions, type LaneOptions } from './runtime/lanes/lane-options.js';
export { describePrecision, lackOf } from './runtime/capabilities/capabilities.js';
export { readRunInput } from './extract/replicas/read-run-input.js';
export { Extractor } from './extract/extractor.js';
export { readModelCall } from './extract/inherit-options.js';

// Classes: their labels, and what tells them.
export { checkLabels, readClassLabels, type ClassLabels } from './extract/class-labels.js';
export { withClassifier, type ClassifierKind } from './extract/with-classifier.js';
export { readHead, type HeadOptions } from './extract/with-heads.js';

// Pictures.
export { isImageName } from './images/decode/image-names.js';
export { encodePng, encodeWebp } from './images/encode.js';
export { isImageError } from './images/file/image-errors.js';
export { checkRgbImage } from './images/pixels/rgb-image.js';
export { partName } from './images/pixels/tile-grid.js';
export { makeThumbnail, tryThumbnail } from './images/thumbnail.js';
export { readSides } from './images/transform/check-transform.js';
export { planTiles, type TilePlan, type TilesGiven } from './images/transform/tile-options.js';

// Pictures of a source, as a model takes them.
export { TRANSFORM_FIELDS, type TransformAsked } from './feeds/choose-transform.js';
export { fileOf, type SourceItem } from './feeds/items/source-item.js';
export { PictureReader, WHOLE_SIDE } from './feeds/pictures/picture-reader.js';
export { fitPhotos } from './feeds/plan-feeds.js';
