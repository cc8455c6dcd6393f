/** The door of scripts in pages: what they share with Node.js, and what needs nothing of it. */
export { groupBy } from '../base/group-by.js';
export { editDistance } from '../base/nearest-names.js';
export { printable } from '../base/printable.js';
export { colourOf, HEATMAP_OPACITY, INFERNO, VIRIDIS, type Colour } from '../maps/colour-map.js';
export type {
  ModelMeasure,
  ModelStructure,
  NodeDetail,
  StatedDims,
  StatedTensor,
  ValuePlace,
  WeightDetail,
} from '../structure/model-structure.js';
export type { Figures } from '../tensor/measure-figures.js';
export { RowGroups } from '../tensor/vectors/row-groups.js';
