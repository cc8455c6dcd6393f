/**
 * What products build on beside the public entries: the one door inside. It stands on all rooms up to `datasets`, and hands out single
 * names, at most 60. `test/architecture.test.ts` says which products import nothing else.
 */

// Options: one field gives the default, the check and the flag of a command.
export {
  boolean,
  callback,
  checkedBy,
  defaultsOf,
  integer,
  optional,
  readOptions,
  text,
  type Fields,
} from './base/options.js';
export { invalidOption } from './base/checks.js';

// Words, errors, and what lies outside.
export { reasonOf } from './base/errors.js';
export { packageVersion } from './base/package.js';
export { checkJsonExtent } from './base/read-json.js';
export { fetchUrl } from './base/http/http.js';
export { HttpFailure } from './base/http/http-failure.js';

// Tensors.
export { floatsOf } from './tensor/widen.js';
export { elementsToJson } from './tensor/json-elements.js';

// Vectors.
export { listLargest } from './tensor/vectors/largest.js';
export { softmax } from './tensor/vectors/softmax.js';
export { unitVector } from './tensor/vectors/unit-vector.js';

// Sessions: where they run.
export { describePrecision } from './runtime/capabilities/capabilities.js';

// Labels of classes.
export { checkLabels, readClassLabels } from './extract/class-labels.js';

// Photos through a model, and features as files.
export { EMBED_FIELDS } from './datasets/embed/embed-options.js';
export { planPhotos, type PhotoPlan } from './datasets/embed/photo-places.js';
export { encodeNpy } from './datasets/formats/npy.js';
