/** The door of this room: a model in float16 or int8, and what became of it. */
export {
  inPrecision,
  lowerAlike,
  LOWERING_FIELDS,
  lowerPrecision,
  readKept,
  type LoweredModel,
  type LoweringOptions,
} from './lower-precision.js';
export type { LoweringReport } from './report.js';
export type { Sample } from './run-samples.js';
export { checkFinite } from './search/photo-rows.js';
export { quantizeStatic, type StaticSetup } from './fixed-scales/quantize-static.js';
export type { CalibratedReport } from './fixed-scales/static-report.js';
