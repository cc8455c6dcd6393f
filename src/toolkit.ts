/**
 * What products build on beside the public entries: the one door inside. It stands on all rooms up to `datasets`, and hands out single
 * names, at most 60. `test/architecture.test.ts` says which products import nothing else.
 */

// Options: one field gives the default, the check and the flag of a command.

// Words, errors, numbers, and what lies outside.

// Tensors.

// Vectors.

// What a model is asked.
export { findEnds, findPlaces } from './model/oracle/find-ends.js';
export { readPoolingHead, type PoolingWeights } from './model/read-pooling-head.js';
export { inputsOf } from './model/prune/pruned-model.js';
export { findGrid } from './graph/rewrite/token-grid.js';

// Sessions: where they run, and what a call takes over from an extractor.
export { DEVICE } from './runtime/lanes/device.js';
export { LANE_FIELDS, readLaneOptions, type LaneOptions } from './runtime/lanes/lane-options.js';
export { describePrecision } from './runtime/capabilities/capabilities.js';
export { readRunInput } from './extract/replicas/read-run-input.js';
export { readModelCall } from './extract/inherit-options.js';

// Labels of classes.
export { checkLabels, readClassLabels, type ClassLabels } from './extract/class-labels.js';

// Pictures.
export { encodePng } from './images/encode.js';
export { checkRgbImage } from './images/pixels/rgb-image.js';
export { readSides } from './images/transform/check-transform.js';

// Photos through a model, and features as files.
export { EMBED_FIELDS } from './datasets/embed/embed-options.js';
export { planPhotos, type PhotoPlan } from './datasets/embed/photo-places.js';
export { encodeNpy } from './datasets/formats/npy.js';
