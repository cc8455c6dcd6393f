/** Lowers the precision of a model: its weights and its arithmetic. */
import { checkIterable, invalidOption, type Options } from '../../../base/checks.js';
import {
  number,
  oneOf,
  optional,
  readOptions,
  refuseUnused,
  signal,
  texts,
  type Fields,
} from '../../../base/options.js';
import type { Graph, Node } from '../../../onnx/graph/graph.js';
import type { Naming } from '../../../onnx/graph/rewrite/lay-out.js';
import { canConvert, convertibleOperators, isKnownOperator } from '../graph/half-forms.js';
import { describeNode, outputsOf, wholeCut } from '../../../onnx/graph/rewrite/prune.js';
import { startRewrite, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import {
  checkPrecision,
  isLowered,
  type EngineName,
  type LoweredPrecision,
  type Precision,
} from '../../../run/runtime/capabilities/capabilities.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import {
  deriveModel,
  readModel,
  type ModelSource,
  type OnnxModel,
} from '../../../run/model/open/open-model.js';
import { SessionHolder } from '../../../run/model/oracle/session-holder.js';
import {
  createPruned,
  precisionOf,
  prunedInternals,
  type PrunedModel,
  type PrunedState,
} from '../../../run/model/prune/pruned-model.js';
import { checkNames } from '../../../run/model/open/return-nodes.js';
import { lowerToInt8 } from './lower-int8.js';
import { lowerRewrite, type Lowered } from './lower-rewrite.js';
import type { LoweringReport } from './report.js';

/** Options of {@link lowerPrecision}. */
export interface LoweringOptions {
  /**
   * `float16`: weights and arithmetic of half the size, for GPUs. `int8`: products with constant matrices in 8 bits, for transformers
   * on CPUs.
   * @default 'float16'
   */
  readonly precision: LoweredPrecision;
  /**
   * What stays in float32 besides what must: operators, such as `['Sigmoid']`; with int8, also names of nodes.
   * @default []
   */
  readonly keep: readonly string[];
  /**
   * float16: operators that compute in it although they stay in float32 by default, such as `['LayerNormalization']`: sums, norms,
   * exponentials. Values can overflow there.
   * @default []
   */
  readonly convert: readonly string[];
  /**
   * int8: feeds of runs, such as a photo each, as `run` of an extractor takes them. On them it is measured which products can
   * be computed in 8 bits; 16 to 64 photos suffice. They are held in memory.
   * @default undefined: all products are computed in 8 bits, unmeasured
   */
  readonly samples: Iterable<unknown> | AsyncIterable<unknown> | undefined;
  /**
   * int8, with samples: the least cosine to float32 of any row of any output, from -1 to 1.
   * @default 0.99
   */
  readonly minCosine: number;
  /**
   * Stops the measurement when it fires.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

const SAMPLES = 'a list, or an (async) iterable, of feeds';

export const LOWERING_FIELDS: Fields<LoweringOptions> = {
  precision: oneOf(['float16', 'int8'], 'float16'),
  keep: texts([], 'operator or node that stays in float32; repeatable'),
  convert: texts(),
  samples: optional((option, value) => checkIterable(option, value as Iterable<unknown>, SAMPLES)),
  minCosine: number(-1, 1, 0.99, 'least cosine to float32; what loses too much stays in float32'),
  signal,
};

/** A model in lower precision, and what was done to it. */
export interface LoweredModel<Model extends OnnxModel | PrunedModel> {
  readonly model: Model;
  readonly report: LoweringReport;
}

/**
 * Makes a model of lower precision, with inputs and outputs as before. What is kept of the file is copied byte for byte.
 *
 * **float16** is for GPUs: half the size, weights and arithmetic in float16. CPUs are not faster with it: ONNX Runtime computes in
 * float32 there and converts in between. Sums of many terms, normalisations, softmax, powers and positions stay in float32, and so
 * does what computes with a weight above 65,504 or a constant too small for float16. A cast stands only between float32 and float16,
 * once per tensor.
 *
 * **int8** is for transformers on CPUs with VNNI or AMX. The file has about a quarter of the size, and products with constant matrices are
 * in 8 bits. Weights have a scale per column, and activations one per row, so that the features of an image do not depend on its batch.
 * Convolutions and everything else stay in float32. Give `samples`: on them it is measured which products can be computed so.
 *
 * @remarks The converted weights are in memory as long as the model, at one or two bytes per element. They are written into the model
 * file, which holds at most 2 GiB.
 * @param model - A model, where to open one, or what {@link pruneModel} gives.
 * @param given - See {@link LoweringOptions}.
 * @returns The model, of the same kind as the given one, and a report: what was converted and kept, overflows, what was measured.
 * {@link verifyModel} compares a pruned one with the float32 graph, {@link compareModels} any on photos.
 * @throws {@link TapirError} `OPTION_INVALID`; `PRECISION_UNSUPPORTED` if int8 does not help the model; `PRECISION_TOO_LOW` if the
 * samples do not allow it; `MODEL_CHANGED`; `EXTERNAL_DATA_UNSAFE`; those of {@link openModel}.
 *
 * @example
 * ```ts
 * import { lowerPrecision } from 'onnx-tapir/precision';
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
  const options = readOptions(LOWERING_FIELDS, given, 'lowerPrecision');
  checkTogether(options);
  const source = readSubject(model);
  const form = { precision: options.precision };
  const { lowered, made } = await lowerAlike(source, form, (from, rewrite, naming) =>
    lower(from, rewrite, naming, options),
  );
  return { model: lowered, report: made.report };
}

/** A model to lower: a whole one, opened, or what {@link pruneModel} gave. */
export function readSubject(model: OnnxModel | ModelSource | PrunedModel): OnnxModel | PrunedModel {
  return prunedInternals.has(model) ? model : readModel(model);
}

/** Lowers a model to one of the same kind: a pruned one, from its form in float32, or a whole one. */
export async function lowerAlike<Made extends Lowered>(
  given: OnnxModel | PrunedModel,
  form: Omit<NonNullable<PrunedState['lowered']>, 'exact'>,
  make: (model: OnnxModel, rewrite: Rewrite, naming: Naming) => Promise<Made>,
): Promise<{
  readonly exact: OnnxModel | PrunedModel;
  readonly lowered: OnnxModel | PrunedModel;
  readonly made: Made;
}> {
  if (!prunedInternals.has(given)) {
    const made = await make(given, wholeRewrite(given), 'tensors');
    return { exact: given, lowered: await deriveModel(given, made.chunks), made };
  }
  const exact = prunedInternals.of(given).lowered?.exact ?? given;
  const state = prunedInternals.of(exact);
  const made = await make(state.model, state.rewrite, state.request.naming);
  const { rewrite, chunks } = made;
  return { exact, lowered: createPruned({ ...state, rewrite, chunks, lowered: { ...form, exact } }), made };
}

/** The rewrite of a whole model that changes nothing. */
export function wholeRewrite(model: OnnxModel): Rewrite {
  const { graph } = modelInternals.of(model);
  return startRewrite(wholeCut(graph, outputsOf(graph.outputs, 'output')));
}

async function lower(
  model: OnnxModel,
  rewrite: Rewrite,
  naming: Naming,
  options: LoweringOptions,
): Promise<Lowered> {
  const { graph } = rewrite.cut;
  if (options.precision === 'int8') {
    const { samples, minCosine, signal } = options;
    return lowerToInt8(model, rewrite, naming, {
      keep: readKeptNodes(options.keep, graph),
      samples: samples === undefined ? undefined : { samples, minCosine, signal },
    });
  }
  const operators = { keep: readKept(options.keep, graph), convert: readConverted(options.convert) };
  await using sessions = new SessionHolder(model);
  return await lowerRewrite(rewrite, naming, operators, sessions);
}

/** A pruned model in a precision: as it is if the engine or the file computes in it, else lowered by default. Throws `PRECISION_UNSUPPORTED`. */
export async function inPrecision(
  pruned: PrunedModel,
  precision: Precision,
  engine: EngineName,
): Promise<PrunedModel> {
  // Every engine runs a file in 8 bits.
  if (precisionOf(pruned) === precision) return pruned;
  checkPrecision(precision, engine);
  return isLowered(precision) ? (await lowerPrecision(pruned, { precision })).model : pruned;
}

function checkTogether(options: LoweringOptions): void {
  const { precision, samples, convert } = options;
  const isFloat16 = precision === 'float16';
  if (isFloat16 && samples !== undefined)
    throw invalidOption(
      'samples',
      'left out with precision "float16": they choose what int8 computes',
      'given',
    );
  if (!isFloat16 && !isEmpty(convert))
    throw invalidOption('convert', 'left out with precision "int8"', convert);
  if (samples === undefined)
    refuseUnused(LOWERING_FIELDS, options, ['minCosine'], `precision "${precision}" without samples`);
}

function isEmpty(given: unknown): boolean {
  return Array.isArray(given) && given.length === 0;
}

function readNames(option: string, given: unknown): readonly string[] {
  return isEmpty(given) ? [] : checkNames(option, given);
}

/** Operators and names of nodes that stay in float32. */
export function readKeptNodes(given: unknown, graph: Graph): ReturnType<typeof readKept> {
  return readKept(given, graph, describeNode);
}

/** The operators that stay in float32; with `nameOf`, also names of nodes. */
export function readKept(
  given: unknown,
  { nodes }: Graph,
  nameOf?: (node: Node) => string,
): ReadonlySet<string> {
  const present = new Set(nodes.flatMap((node) => [node.opType, ...(nameOf ? [nameOf(node)] : [])]));
  const kept = readNames('keep', given);
  const unknown = kept.find((name) => !isKnownOperator(name) && !present.has(name));
  if (unknown === undefined) return new Set(kept);
  const expected = nameOf
    ? 'names of ONNX operators, or of nodes'
    : 'names of ONNX operators, such as "Sigmoid"';
  throw invalidOption('keep', expected, unknown);
}

function readConverted(given: unknown): ReadonlySet<string> {
  const converted = readNames('convert', given);
  const refused = converted.find((operator) => !canConvert(operator));
  if (refused !== undefined)
    throw invalidOption('convert', `some of ${convertibleOperators().join(', ')}`, refused);
  return new Set(converted);
}
