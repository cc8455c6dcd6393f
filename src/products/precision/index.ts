/** Models of lower precision, and what it costs in exactness. */
export { lowerPrecision, type LoweredModel, type LoweringOptions } from './lowering/lower-precision.js';
export type { CalibratedReport } from './lowering/fixed-scales/static-report.js';
export type { LoweredPrecision } from '../../run/runtime/capabilities/capabilities.js';
export type { LoweringReport } from './lowering/report.js';
export { compareModels, type CompareOptions } from './compare/compare-models.js';
export type { ComparedOutput, ModelComparison } from './compare/comparison.js';
export type { PixelAgreement } from './compare/compare-pixels.js';
export type { ComparedSource } from './compare/open-sides.js';
export { chooseEngine, type ChooseEngineOptions } from './judge/choose-engine.js';
export type { EngineCandidate, EngineChoice } from '../../datasets/records/engine-choice.js';
export {
  quantizeModel,
  type QuantizeOptions,
  type QuantizedModel,
  type StaticReport,
} from './quantize/quantize-model.js';
export type { MeasuredSpeed } from './quantize/measure-speeds.js';
