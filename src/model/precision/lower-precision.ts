/** Lowers the precision of a model: its weights and its arithmetic. */
import { checkOneOf, invalidOption, withDefaults, type Options } from '../../base/checks.js';
import type { Graph } from '../../graph/graph.js';
import {
  canConvert,
  convertibleOperators,
  isKnownOperator,
} from '../../graph/rewrite/precision/operators.js';
import { graphOutputs, wholeCut } from '../../graph/rewrite/prune.js';
import { startRewrite } from '../../graph/rewrite/rewrite.js';
import type { Precision } from '../../runtime/lane-options.js';
import { modelInternals } from '../model-state.js';
import { deriveModel, readModel, type ModelSource, type OnnxModel } from '../open-model.js';
import { ModelOracle } from '../oracle/model-oracle.js';
import { createPruned, prunedInternals, type PrunedModel } from '../pruned-model.js';
import { checkNames } from '../return-nodes.js';
import { lowerRewrite, type OperatorChoice } from './lower-rewrite.js';
import type { LoweringReport } from './report.js';

/** Options of {@link lowerPrecision}. */
export interface LoweringOptions {
  /**
   * The type of weights and arithmetic.
   * @default 'float16'
   */
  readonly precision: 'float16';
  /**
   * Operators that stay in float32 besides those that must, such as `['Sigmoid']`.
   * @default []
   */
  readonly keep: readonly string[];
  /**
   * Operators that compute in float16 although they stay in float32 by default, such as `['LayerNormalization']`: sums, norms,
   * exponentials. Values can overflow there.
   * @default []
   */
  readonly convert: readonly string[];
}

export const LOWERING_DEFAULTS: LoweringOptions = { precision: 'float16', keep: [], convert: [] };

/** A model in lower precision, and what was done to it. */
export interface LoweredModel<Model extends OnnxModel | PrunedModel> {
  readonly model: Model;
  readonly report: LoweringReport;
}

/** The float32 model of each lowered one. */
const exactModels = new WeakMap<PrunedModel, PrunedModel>();

/**
 * Makes a model of half the size: weights and arithmetic in float16, inputs and outputs as before. GPUs compute several times as fast
 * in float16. CPUs do not: ONNX Runtime computes in float32 there and converts in between.
 *
 * Sums of many terms, normalisations, softmax, powers and positions stay in float32, and so does what computes with a weight above
 * 65,504 or a constant too small for float16. A cast stands only between float32 and float16, once per tensor. What is kept
 * of the file is copied byte for byte.
 *
 * @remarks The converted weights are in memory as long as the model, at two bytes per element. They are written into the model file,
 * which holds at most 2 GiB.
 * @param model - A model, where to open one, or what {@link pruneModel} gives.
 * @param given - See {@link LoweringOptions}.
 * @returns The model, of the same kind as the given one, and a report: what was converted and kept, overflows and underflows.
 * {@link verifyModel} compares a pruned one with the float32 graph, {@link compareModels} any on photos.
 * @throws {@link TapirError} `OPTION_INVALID`; `MODEL_CHANGED`; `EXTERNAL_DATA_UNSAFE`; those of {@link openModel}.
 *
 * @example
 * ```ts
 * import { lowerPrecision } from 'onnx-tapir';
 *
 * const { model, report } = await lowerPrecision('resnet50.onnx');
 * console.log(report.bytesAfter / report.bytesBefore, report.overflows); // 0.5 []
 * await model.save('resnet50.float16.onnx');
 * ```
 */
export async function lowerPrecision(
  model: PrunedModel,
  given?: Options<LoweringOptions>,
): Promise<LoweredModel<PrunedModel>>;
export async function lowerPrecision(
  model: OnnxModel | ModelSource,
  given?: Options<LoweringOptions>,
): Promise<LoweredModel<OnnxModel>>;
export async function lowerPrecision(
  model: OnnxModel | ModelSource | PrunedModel,
  given: Options<LoweringOptions> = {},
): Promise<LoweredModel<OnnxModel | PrunedModel>> {
  const options = withDefaults(LOWERING_DEFAULTS, given, 'lowerPrecision');
  checkOneOf('precision', options.precision, ['float16']);
  return prunedInternals.has(model) ? lowerPruned(model, options) : lowerWhole(readModel(model), options);
}

async function lowerPruned(
  pruned: PrunedModel,
  options: LoweringOptions,
): Promise<LoweredModel<PrunedModel>> {
  const exact = exactModelOf(pruned);
  const laidOut = prunedInternals.of(exact);
  const { model, rewrite, request } = laidOut;
  const operators = readOperators(options, rewrite.cut.graph);
  await using oracle = new ModelOracle(model);
  const lowered = await lowerRewrite(model, rewrite, request.naming, operators, oracle);
  const made = createPruned({ ...laidOut, rewrite: lowered.rewrite, chunks: lowered.chunks });
  exactModels.set(made, exact);
  return { model: made, report: lowered.report };
}

async function lowerWhole(model: OnnxModel, options: LoweringOptions): Promise<LoweredModel<OnnxModel>> {
  const { graph } = modelInternals.of(model);
  const operators = readOperators(options, graph);
  const rewrite = startRewrite(wholeCut(graph, graphOutputs(graph)), () => NO_TYPE);
  await using oracle = new ModelOracle(model);
  const { chunks, report } = await lowerRewrite(model, rewrite, 'tensors', operators, oracle);
  return { model: await deriveModel(model, chunks), report };
}

/** Never used: a whole graph is not cut inside. */
const NO_TYPE = { elemType: 0, dims: null } as const;

/** The float32 model that a pruned model was lowered from; the model itself if it was not lowered. */
function exactModelOf(pruned: PrunedModel): PrunedModel {
  return exactModels.get(pruned) ?? pruned;
}

/**
 * A pruned model in a precision: lowered to float16, or as it was before. One that is lowered already stays as it is, with the operators
 * that were chosen for it.
 */
export async function inPrecision(pruned: PrunedModel, precision: Precision): Promise<PrunedModel> {
  if (precision !== 'float16') return exactModelOf(pruned);
  return isLowered(pruned) ? pruned : (await lowerPrecision(pruned)).model;
}

/** Whether a model is what {@link lowerPrecision} makes of a pruned model. */
export function isLowered(model: unknown): boolean {
  return prunedInternals.has(model) && exactModels.has(model);
}

function readNames(option: string, given: unknown): readonly string[] {
  return Array.isArray(given) && given.length === 0 ? [] : checkNames(option, given);
}

function readOperators({ keep, convert }: LoweringOptions, { nodes }: Graph): OperatorChoice {
  const present = new Set(nodes.map(({ opType }) => opType));
  const kept = readNames('keep', keep);
  const unknown = kept.find((operator) => !isKnownOperator(operator) && !present.has(operator));
  if (unknown !== undefined)
    throw invalidOption('keep', 'names of ONNX operators, such as "Sigmoid"', unknown);
  const converted = readNames('convert', convert);
  const refused = converted.find((operator) => !canConvert(operator));
  if (refused !== undefined)
    throw invalidOption('convert', `some of ${convertibleOperators().join(', ')}`, refused);
  return { keep: new Set(kept), convert: new Set(converted) };
}
