/** What an extractor is made of → the pruned model that it runs. */
import { invalidOption, type Options } from '../base/checks.js';
import type { TransformRequest } from '../photos/feeds/choose-transform.js';
import { cutWithInput } from './photo-input.js';
import { pruneToRun } from '../run/model/oracle/prune-model.js';
import { modelInternals } from '../run/model/open/model-state.js';
import { readModel, type ModelSource, type OnnxModel } from '../run/model/open/open-model.js';
import { readReturnNodes, type ReturnNodes } from '../run/model/open/return-nodes.js';
import { deriveRewritten } from '../run/model/prune/derive-rewritten.js';
import { prunedInternals, type PrunedModel } from '../run/model/prune/pruned-model.js';
import { REWRITE_FIELDS, type RewriteOptions } from '../run/model/prune/rewrite-options.js';
import { extractorInternals, type Extractor } from './extractor.js';
import { dtypesInGraph } from './replicas/output-dtype.js';

/** What an extractor can be made of. */
export type ExtractorSource = ModelSource | OnnxModel | PrunedModel | Extractor;

/**
 * The pruned model of a source: cut for names, without them for its outputs; a pruned model then runs as it is. Throws those of
 * {@link pruneModel}; `OPTION_INVALID` for options that change a pruned model without `returnNodes`, and for `returnNodes` of a lowered model.
 */
export async function pruneSource(
  model: ExtractorSource,
  returnNodes: ReturnNodes | undefined,
  rewriting: RewriteOptions,
  asked: Options<RewriteOptions>,
  transform: TransformRequest,
): Promise<PrunedModel> {
  const pruned = extractorInternals.has(model) ? model.model : prunedInternals.has(model) ? model : undefined;
  if (!pruned)
    return pruneOpened(readModel(model as ModelSource | OnnxModel), returnNodes, rewriting, transform);
  if (returnNodes !== undefined)
    return pruneOpened(await sourceOf(pruned, returnNodes), returnNodes, rewriting, transform);
  const changed = Object.keys(REWRITE_FIELDS).find(
    (option) => option !== 'outputDtype' && Object.hasOwn(asked, option),
  );
  if (changed === undefined) return pruned;
  throw invalidOption(
    changed,
    'left out without option "returnNodes": the pruned model runs as it is',
    'a value',
  );
}

/** Cuts a model for names, without them for its outputs. */
async function pruneOpened(
  model: OnnxModel,
  returnNodes: ReturnNodes | undefined,
  rewriting: RewriteOptions,
  transform: TransformRequest,
): Promise<PrunedModel> {
  const nodes = returnNodes ?? outputNodes(model);
  const keys = readReturnNodes(nodes).pairs.map(({ key }) => key);
  const outputDtype = dtypesInGraph(rewriting.outputDtype, keys, modelInternals.of(model).graph);
  const keepTensorNames = returnNodes === undefined;
  return cutWithInput(model, nodes, rewriting, transform, (input) =>
    pruneToRun(model, nodes, { ...rewriting, input, outputDtype, keepTensorNames }),
  );
}

/** The outputs of a graph, as nodes to return. The name of an output may be the path of a module as well. */
export function outputNodes({ outputs }: OnnxModel): ReturnNodes {
  return outputs.map(({ name }) => [`tensor:${name}`, name] as const);
}

/** The model that the names of a request are looked up in. The gradients of a model are tensors of the model that computes them. */
async function sourceOf(pruned: PrunedModel, returnNodes: ReturnNodes): Promise<OnnxModel> {
  const { isGradient, lowered, rewrite } = prunedInternals.of(pruned);
  if (lowered)
    throw invalidOption(
      'returnNodes',
      `left out with a model in ${lowered.precision}, which is cut already: prune for these names first, then lower`,
      returnNodes,
    );
  return isGradient === true ? deriveRewritten(pruned.source, rewrite, 'keys') : pruned.source;
}
