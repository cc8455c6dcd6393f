/** The door of this room: a model in float16 or int8, and what became of it. */
export { quantizeStatic, type StaticSetup } from './fixed-scales/quantize-static.js';
export type { CalibratedReport } from './fixed-scales/static-report.js';
export {
  askedDevices,
  CPU_FORMS,
  exactForm,
  FORM_FIELDS,
  listForms,
  nameDevice,
  openModelForm,
  openOutputs,
  refuseForms,
  type ModelForm,
} from './forms.js';
export { isConvolutional } from './is-convolutional.js';
export {
  lowerAlike,
  LOWERING_FIELDS,
  lowerPrecision,
  readKeptNodes,
  readSubject,
  type LoweredModel,
  type LoweringOptions,
} from './lower-precision.js';
export type { LoweringReport } from './report.js';
export type { Sample } from './run-samples.js';
export { checkFinite } from './search/photo-rows.js';
export type { EnginePrecision, LoweredPrecision } from './../runtime/capabilities/capabilities.js';
