/**
 * What products build on beside the public entries: the one door inside. It stands on all rooms up to `datasets`, and hands out single
 * names, at most 60. `test/architecture.test.ts` says which products import nothing else.
 */

// Options: one field gives the default, the check and the flag of a command.
export {
  boolean,
  callback,
  checkedBy,
  integer,
  number,
  oneOf,
  optional,
  readOptions,
  refuseUnused,
  signal,
  text,
  unchecked,
  type Fields,
} from './base/options.js';
export { givenFields, invalidOption, isPlainObject, show } from './base/checks.js';

// Words, errors, numbers, and what lies outside.
export { reasonOf } from './base/errors.js';
export { nearestNames } from './base/nearest-names.js';
export { createRandom } from './base/random.js';
export { packageVersion } from './base/package.js';
export { checkJsonExtent } from './base/read-json.js';
export { fetchUrl } from './base/http/http.js';
export { HttpFailure } from './base/http/http-failure.js';

// Tensors.
export { makeTensor, mismatch, readTensor, type NamedTensor } from './tensor/tensor.js';
export { selectRows } from './tensor/rows.js';
export { permute } from './tensor/permute.js';
export { floatsOf } from './tensor/widen.js';
export { elementsToJson } from './tensor/json-elements.js';

// Vectors.
export { highest, listLargest } from './tensor/vectors/largest.js';
export { softmax } from './tensor/vectors/softmax.js';
export { unitVector } from './tensor/vectors/unit-vector.js';
export { findComponents } from './tensor/vectors/find-components.js';

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
