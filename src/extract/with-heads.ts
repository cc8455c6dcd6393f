/** Heads on nodes of a model: how probes, early exits and training put a linear layer on features. */
import { checkOneOf, type Options } from '../base/checks.js';
import type { Pool } from '../onnx/graph/rewrite/feature-parts.js';
import type { LinearHead } from '../onnx/graph/rewrite/linear-head.js';
import type { Rewrite, RewriteOutput } from '../onnx/graph/rewrite/rewrite.js';
import { mismatch, readTensor, type TensorLike } from '../onnx/tensor/tensor.js';
import type { ModelSource, OnnxModel } from '../run/model/open/open-model.js';
import { deriveRewritten } from '../run/model/prune/derive-rewritten.js';
import { prunedInternals } from '../run/model/prune/pruned-model.js';
import { POOLS } from '../run/model/prune/rewrite-options.js';
import { pruneModel, type PruneOptions } from '../run/model/oracle/prune-model.js';

/** A linear head for a node that gives no logits, such as a probe trained on its pooled features. */
export interface HeadOptions {
  /** float32 `[classes, features]`, as torch's Linear has it. */
  readonly weight: TensorLike;
  /** float32 `[classes]`; zeros if absent. */
  readonly bias?: TensorLike | undefined;
  /** How the node's result becomes one vector per row; see {@link RewriteOptions.pool}. `'none'` flattens it. */
  readonly pool?: Pool | undefined;
}

/** Checks a head that a caller gives. Throws `OPTION_INVALID`, `INPUT_MISMATCH`. */
export function readHead(
  option: string,
  { weight, bias, pool = 'none' }: HeadOptions,
): LinearHead & { readonly pool: Pool } {
  const kind = checkOneOf(`${option}.pool`, pool, POOLS);
  const matrix = readTensor(`${option}.weight`, weight);
  const [classes = 0, features = 0] = matrix.dims;
  if (matrix.dtype !== 'float32' || matrix.dims.length !== 2 || classes * features === 0)
    throw mismatch(`${option}.weight`, 'float32 [classes, features]', describe(matrix));
  const offsets = bias === undefined ? undefined : readTensor(`${option}.bias`, bias);
  if (offsets && (offsets.dtype !== 'float32' || offsets.dims.length !== 1 || offsets.dims[0] !== classes))
    throw mismatch(`${option}.bias`, `float32 [${classes}]`, describe(offsets));
  const data = offsets?.dtype === 'float32' ? offsets.data : new Float32Array(classes);
  return { weight: matrix.data, bias: data, pool: kind };
}

function describe({ dtype, dims }: { readonly dtype: string; readonly dims: readonly number[] }): string {
  return `${dtype} [${dims.join(', ')}]`;
}

/** An output of the model with heads. */
export interface HeadedNode {
  readonly node: string;
  /** The name of the output. */
  readonly key: string;
  /** How the node's result becomes one vector per row. */
  readonly pool?: Pool | undefined;
  /** Puts the head on the node's output, which then holds its result; left out for a node that is an output as it is. */
  readonly attach?: ((rewrite: Rewrite, output: RewriteOutput, key: string) => Rewrite) | undefined;
}

/**
 * Cuts a model at nodes and puts their heads on them. All kept bytes are those of the model; nodes and weights are added after them.
 *
 * @returns The model with one output per node.
 * @throws {@link TapirError} those of {@link pruneModel} and of the heads.
 */
export async function withHeads(
  model: OnnxModel | ModelSource,
  nodes: readonly HeadedNode[],
  options: Options<Omit<PruneOptions, 'pool'>>,
): Promise<OnnxModel> {
  const keys = nodes.map(({ key, attach }, i) => (attach ? `features/${i}` : key));
  const requests = nodes.map(({ node }, i) => [node, keys[i]!] as const);
  const pool = new Map(nodes.map((node, i) => [keys[i]!, node.pool ?? 'none']));
  const pruned = await pruneModel(model, requests, { ...options, pool });
  let { rewrite } = prunedInternals.of(pruned);
  for (const [i, { key, attach }] of nodes.entries())
    if (attach)
      rewrite = attach(
        rewrite,
        rewrite.outputs.find((output) => output.key === keys[i])!,
        key,
      );
  return deriveRewritten(pruned.source, rewrite, 'keys');
}
