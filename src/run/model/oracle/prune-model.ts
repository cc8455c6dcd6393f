/** Prunes a model: names → the part of the graph that they need, with the requested parts. Sessions tell what the file does not state. */
import { givenFields, type Options } from '../../../base/checks.js';
import { isTapirError } from '../../../base/errors.js';
import { boolean, readOptions, type Fields } from '../../../base/options.js';
import type { Value } from '../../../onnx/graph/graph.js';
import { keptNames } from '../../../onnx/graph/rewrite/fresh-names.js';
import { settingsOf } from '../open/model-settings.js';
import { readModel, type ModelSource, type OnnxModel } from '../open/open-model.js';
import { readReturnNodes, type ReturnNodes } from '../open/return-nodes.js';
import { chunksOf } from '../prune/derive-rewritten.js';
import type { InferredType } from '../prune/feature-info.js';
import type { LaidOut } from '../prune/prepared.js';
import { createPruned, prunedInternals, type PrunedModel } from '../prune/pruned-model.js';
import { readRewriteOptions, REWRITE_FIELDS, type RewriteOptions } from '../prune/rewrite-options.js';
import { fillBySession } from './infer-types.js';
import { prepareRewrite } from './prepare.js';
import { SessionHolder } from './session-holder.js';

/** Options of {@link pruneModel}. */
export interface PruneOptions extends RewriteOptions {
  /**
   * Write outputs under the names of their tensors instead of the given keys. Then no node is added for a key.
   * @default false
   */
  readonly keepTensorNames: boolean;
  /**
   * Allow outputs that are sequences, maps or optionals. Other runtimes can return them, onnxruntime-node cannot.
   * @default false
   */
  readonly allowNonTensor: boolean;
  /**
   * State dtype and dims of every output in the written file, because ONNX's checker and some runtimes need them. Where the source does not
   * state them, or states a batch that its inputs leave open, they follow by the rules of the operators. Where no rule tells them, `bytes` and
   * `save` ask ONNX Runtime, once and without the weights. Nothing else changes.
   * @default true
   */
  readonly fillTypes: boolean;
  /**
   * Tidy the written graph for strict checkers: nodes in execution order and under distinct names, no imports of unused
   * operator sets. Changes nothing else.
   * @default false
   */
  readonly tidy: boolean;
}

export const PRUNE_FIELDS: Fields<PruneOptions> = {
  ...REWRITE_FIELDS,
  keepTensorNames: boolean(false, 'keep the tensors’ names for the outputs, and add no node'),
  allowNonTensor: boolean(false),
  fillTypes: boolean(true, 'fill in types of outputs that the source leaves open'),
  tidy: boolean(false, 'sort nodes, make their names distinct, drop unused operator sets'),
};

/** Cuts a model down to what the named values need: the public `pruneModel` of `src/extract/prune-model.ts` without photos. */
export async function pruneModel(
  model: OnnxModel | ModelSource,
  returnNodes: ReturnNodes,
  given: Options<PruneOptions> = {},
): Promise<PrunedModel> {
  const opened = readModel(model);
  return pruneRead(opened, returnNodes, readPruneOptions(opened, PRUNE_FIELDS, given));
}

/** Reads the options of a cut. What is left out may stand in the model's own file. */
export function readPruneOptions<Read extends PruneOptions>(
  model: OnnxModel,
  fields: Fields<Read>,
  given: Options<Read>,
): Read {
  const own = settingsOf(model)?.dynamicBatch === true ? { batch: 'dynamic' } : {};
  return readOptions(fields, { ...own, ...givenFields(given, 'pruneModel') }, 'pruneModel');
}

/** {@link pruneModel} with options that are read. */
export async function pruneRead(
  model: OnnxModel,
  returnNodes: ReturnNodes,
  options: PruneOptions,
): Promise<PrunedModel> {
  await using sessions = new SessionHolder(model);
  return await cutModel(returnNodes, options, sessions);
}

/**
 * Prunes a model that is run here, not written: its session tells the types of outputs. Options and errors as of {@link pruneModel}, but a
 * key may be the name of the tensor that its output is computed from. A file cannot have that name twice, so the outputs then keep the names
 * of their tensors, as with a list.
 */
export async function pruneToRun(
  model: OnnxModel | ModelSource,
  returnNodes: ReturnNodes,
  given: Options<RewriteOptions & Pick<PruneOptions, 'keepTensorNames'>> = {},
): Promise<PrunedModel> {
  const options = { ...given, fillTypes: false };
  const opened = readModel(model);
  try {
    return await pruneModel(opened, returnNodes, options);
  } catch (error) {
    if (!isTapirError(error, 'OUTPUT_NAME_TAKEN')) throw error;
    const pruned = await pruneModel(opened, returnNodes, { ...options, keepTensorNames: true });
    const { cut, outputs } = prunedInternals.of(pruned).rewrite;
    const taken = keptNames(cut);
    if (outputs.some(({ key, value }) => taken.has(key) && key !== value.name)) throw error;
    return pruned;
  }
}

/** Prunes the model of a holder, as {@link pruneModel} does. With types that are known, no session is asked for types. */
export async function cutModel(
  returnNodes: ReturnNodes,
  options: PruneOptions,
  sessions: SessionHolder,
  inferred?: ReadonlyMap<Value, InferredType>,
): Promise<PrunedModel> {
  const { keepTensorNames, allowNonTensor, fillTypes, tidy } = options;
  const { pairs, keyed } = readReturnNodes(returnNodes);
  const keys = pairs.map(({ key }) => key);
  const setup = readRewriteOptions(options, keys);
  const naming = keyed && !keepTensorNames ? 'keys' : 'tensors';
  const request = { ...setup, outputs: pairs, naming, allowNonTensor, fillTypes, tidy } as const;
  const prepared = await prepareRewrite(request, sessions, inferred);
  const chunks = await chunksOf(sessions.model, prepared.rewrite, naming);
  return createPruned({ ...prepared, chunks, ...(prepared.unstated && { complete: completeTypes }) });
}

/** The types that only a session tells, before the file is written. */
async function completeTypes(state: LaidOut): Promise<LaidOut> {
  const { model, request, unstated } = state;
  await using sessions = new SessionHolder(model);
  const rewrite = await fillBySession(state.rewrite, unstated!, request.inputSizes, sessions);
  return { ...state, rewrite, chunks: await chunksOf(model, rewrite, request.naming) };
}
