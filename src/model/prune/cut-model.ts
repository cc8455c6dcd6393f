/** Model + request → a pruned model. Pure except for the questions that it passes on: the public pruneModel answers them. */
import type { Options } from '../../base/checks.js';
import { boolean, readOptions, type Fields } from '../../base/options.js';
import { layOutRewrite } from '../../graph/rewrite/lay-out.js';
import { WireReader } from '../../onnx/wire/wire.js';
import type { ModelAnswers } from '../open/model-answers.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import { prepareRewrite } from './prepare.js';
import { createPruned, type PrunedModel } from './pruned-model.js';
import { readReturnNodes, type ReturnNodes } from '../open/return-nodes.js';
import { readRewriteOptions, REWRITE_FIELDS, type RewriteOptions } from './rewrite-options.js';

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
   * State dtype and dims of every output in the written file, because some checkers and runtimes need them. Asks ONNX Runtime
   * where the source does not state them.
   * @default false
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
  fillTypes: boolean(false, 'write dtype and dims of every output, inferred by ONNX Runtime'),
  tidy: boolean(false, 'sort nodes, make their names distinct, drop unused operator sets'),
};

/** Reads the options, cuts the model, and lays the result out. */
export async function cutModel(
  model: OnnxModel,
  returnNodes: ReturnNodes,
  given: Options<PruneOptions>,
  answers: ModelAnswers,
): Promise<PrunedModel> {
  const options = readOptions(PRUNE_FIELDS, given, 'pruneModel');
  const { keepTensorNames, allowNonTensor, fillTypes, tidy } = options;
  const { pairs, keyed } = readReturnNodes(returnNodes);
  const setup = readRewriteOptions(
    options,
    pairs.map((pair) => pair.key),
  );
  const naming = keyed && !keepTensorNames ? 'keys' : 'tensors';
  const request = { ...setup, outputs: pairs, naming, allowNonTensor, fillTypes, tidy } as const;
  const prepared = await prepareRewrite(model, request, answers);
  const chunks = await modelInternals
    .of(model)
    .withSource((source) => layOutRewrite(prepared.rewrite, naming, new WireReader(source)));
  return createPruned({ ...prepared, chunks });
}
