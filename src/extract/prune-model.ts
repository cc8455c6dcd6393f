/** The public `pruneModel`: a cut, whose graph may prepare photos as well. */
import type { Options } from '../base/checks.js';
import type { Fields } from '../base/options.js';
import { TRANSFORM_FIELDS, type TransformRequest } from '../photos/feeds/choose-transform.js';
import { cutWithInput } from './photo-input.js';
import { readModel, type ModelSource, type OnnxModel } from '../run/model/open/open-model.js';
import type { ReturnNodes } from '../run/model/open/return-nodes.js';
import {
  PRUNE_FIELDS as CUT_FIELDS,
  pruneRead,
  readPruneOptions,
  type PruneOptions as CutOptions,
} from '../run/model/oracle/prune-model.js';
import type { PrunedModel } from '../run/model/prune/pruned-model.js';

/** Options of {@link pruneModel}. */
export interface PruneOptions extends CutOptions {
  /**
   * With input `photo` or `photo-batch`: the pixels that the graph computes; see {@link TransformChoice.transform}.
   * @default 'auto'
   */
  readonly transform: TransformRequest;
}

export const PRUNE_FIELDS: Fields<PruneOptions> = { ...CUT_FIELDS, ...TRANSFORM_FIELDS };

/**
 * Cuts a model down to the nodes and weights that the named values need, and makes those values its outputs.
 *
 * A name is a tensor name, a node name (`node:k` for its k-th output), or a module path such as `layer4`, which means the last
 * node under it; the prefixes `tensor:`, `node:` and `module:` choose one reading. Each name is resolved independently.
 *
 * @param model - A model, or where to open one.
 * @param returnNodes - Names, or names mapped to output keys. With a list, the written file keeps the tensor names. With keys, it
 * has one more node per output, which gives the output its key as name.
 * @param given - See {@link PruneOptions}.
 * @returns The pruned model. Its plan is available at once; its bytes or file are made on demand.
 * @throws {@link TapirError} `NAME_NOT_FOUND` (all unknown names with the nearest ones), `NAME_AMBIGUOUS`, `NAME_FOLDED`,
 * `NAME_INSIDE_BODY`; `OUTPUT_NOT_TENSOR`; `OUTPUT_NAME_TAKEN`; `GRAPH_INVALID`; `EXTERNAL_DATA_UNSAFE`; `TRANSFORM_UNSUPPORTED`
 * with input `photo` for pixels that no standard operators compute exactly; those of {@link openModel}.
 *
 * @example Keep the part of a ResNet-50 that computes `layer1`, `[N, 256, 56, 56]` float32.
 * ```ts
 * import { pruneModel } from 'onnx-tapir';
 *
 * const pruned = await pruneModel('resnet50.onnx', { layer1: 'features' });
 * console.log(pruned.plan.resolved[0]?.tensor); // '/layer1/layer1.2/relu_2/Relu_output_0'
 * await pruned.save('resnet50-layer1.onnx');
 * ```
 */
export async function pruneModel(
  model: OnnxModel | ModelSource,
  returnNodes: ReturnNodes,
  given: Options<PruneOptions> = {},
): Promise<PrunedModel> {
  const opened = readModel(model);
  const options = readPruneOptions(opened, PRUNE_FIELDS, given);
  return cutWithInput(opened, returnNodes, options, options.transform, (input) =>
    pruneRead(opened, returnNodes, { ...options, input }),
  );
}
