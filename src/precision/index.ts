/** Models of lower precision, and what it costs in exactness. */
export {
  lowerPrecision,
  type CalibratedReport,
  type LoweredPrecision,
  type LoweredModel,
  type LoweringOptions,
  type LoweringReport,
} from '../lowering/index.js';
export { compareModels, type CompareOptions } from './compare/compare-models.js';
export type { ComparedOutput, ModelComparison } from './compare/comparison.js';
export type { PixelAgreement } from './compare/compare-pixels.js';
export type { ComparedSource } from './compare/open-sides.js';
export { chooseEngine, type ChooseEngineOptions } from './judge/choose-engine.js';
export type { EngineCandidate, EngineChoice } from '../datasets/index.js';
export {
  quantizeModel,
  type QuantizedModel,
  type QuantizeOptions,
  type StaticReport,
} from './quantize/quantize-model.js';
export type { MeasuredSpeed } from './quantize/measure-speeds.js';
