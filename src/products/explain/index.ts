/** What in a photo a model looks at. */
export {
  createAttribution,
  type Attribution,
  type AttributionResult,
  type AttributionRunOptions,
} from './attribution.js';
export type { AttributionOptions } from './options.js';
export { ATTRIBUTION_METHODS, type AttributionMethod } from './methods.js';
export type { Baseline } from './input-gradients.js';
export type { AttributionTarget } from './targets.js';
export { attribute, type ImageAttribution } from './photos/attribute.js';
export { drawFeatures, type FeatureDrawOptions } from './photos/draw-features.js';
export { drawHeatmap, type DrawOptions } from './photos/draw-heatmap.js';
export type { DrawnImage } from '../maps/blend-heatmap.js';
