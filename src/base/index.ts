/** The door of this room: what products are written with. It knows no model. */
export { checkAbsent, writeAtomically } from './atomic-file.js';
export {
  checkInteger,
  checkPath,
  checkText,
  checkTexts,
  givenFields,
  invalidOption,
  isPlainObject,
  isText,
  show,
  withDefaults,
} from './checks.js';
export { digestOf } from './digest.js';
export { reasonOf } from './errors.js';
export { datasetInvalid } from './files/dataset-invalid.js';
export { liesInside } from './files/lies-inside.js';
export { groupBy } from './group-by.js';
export { binsFor, countInBins, type Histogram } from './histogram.js';
export { HttpFailure } from './http/http-failure.js';
export { fetchUrl } from './http/http.js';
export { mapInOrder } from './map-in-order.js';
export { medianOf } from './median.js';
export { nearestNames } from './nearest-names.js';
export {
  boolean,
  callback,
  checkedBy,
  integer,
  number,
  oneOf,
  optional,
  positive,
  readOptions,
  refuseUnused,
  signal,
  text,
  texts,
  unchecked,
  type Field,
  type Fields,
} from './options.js';
export { packageRequire, packageVersion } from './package.js';
export { counted, shown } from './printable.js';
export { countSteps, type BeginStep, type Tell } from './progress.js';
export { createRandom, seedOf, shuffled } from './random.js';
export { checkJsonExtent, readJson } from './read-json.js';
export { Reservoir } from './reservoir.js';
export { RowSet } from './row-set.js';
