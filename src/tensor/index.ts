/** The door of this room: tensors and vectors. It knows no model. */
export { compareVectors } from './compare-vectors.js';
export { elementsToJson } from './json-elements.js';
export { measureFigures } from './measure-figures.js';
export { selectRows, takeRow } from './rows.js';
export { dimsText } from './tensor-info.js';
export { elementCount, makeTensor, mismatch, readTensor, type NamedTensor } from './tensor.js';
export { createBreathe, type Breathe } from './vectors/breathe.js';
export { cosineDistances, toUnitLength, type Distances, type Matrix } from './vectors/cosine.js';
export { spanForest, suggestDistance } from './vectors/duplicates.js';
export { findComponents } from './vectors/find-components.js';
export { highest, Largest, listLargest } from './vectors/largest.js';
export { findNeighbours } from './vectors/neighbours.js';
export { RowGroups } from './vectors/row-groups.js';
export { layOutRow, poolRow, type RowLayout } from './vectors/row-layout.js';
export { softmax } from './vectors/softmax.js';
export { unitVector } from './vectors/unit-vector.js';
export { floatsOf } from './widen.js';
