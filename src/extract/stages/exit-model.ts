/** Cuts a network with exits into stages: exits and heads → one model per stage. */
import { checkText, invalidOption, show, type Options } from '../../base/checks.js';
import { withLinearHead } from '../../onnx/graph/rewrite/linear-head.js';
import { cutGraph, outputsOf } from '../../onnx/graph/rewrite/prune.js';
import { formExits } from './graph/exit-stages.js';
import { impossible } from './graph/stages.js';
import { NO_SIZES } from '../../run/model/open/input-sizes.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import type { ModelSource, OnnxModel } from '../../run/model/open/open-model.js';
import { cutStages } from './cut-stages.js';
import { readHead, withHeads, type HeadedNode, type HeadOptions } from '../with-heads.js';
import { inputsOf, type PrunedModel } from '../../run/model/prune/pruned-model.js';
import type { ReturnNode } from '../../run/model/open/return-nodes.js';
import type { RewriteOptions } from '../../run/model/prune/rewrite-options.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';

/** A linear head for a node that gives no logits, such as a probe trained on its pooled features. */
export type ExitHead = HeadOptions;

/** Where rows can leave. */
export interface ExitPlace {
  /** The logits of the exit, or with a head, its features. */
  readonly node: string;
  readonly head?: ExitHead;
}

/** A stage of a network with exits. */
export interface ExitStage {
  readonly model: PrunedModel;
  /** Names of the tensors that it takes. */
  readonly inputs: readonly string[];
  /** The name of the tensor that holds its exit’s logits. */
  readonly logits: string;
}

/**
 * Cuts a network into one stage per exit; the last exit is the network's own.
 *
 * @throws {@link TapirError} those of {@link pruneModel}; `SPLIT_IMPOSSIBLE` where rows cannot leave: a tensor that is read behind an exit has no row per sample, or the graph has a fixed batch; `OUTPUT_MISFIT` for a head.
 */
export async function cutExits(
  model: OnnxModel | ModelSource,
  exits: readonly ExitPlace[],
  final: ReturnNode,
  rewriting: Options<Pick<RewriteOptions, 'input' | 'batch' | 'inputSizes'>>,
): Promise<{ readonly inputs: readonly TensorInfo[]; readonly stages: readonly ExitStage[] }> {
  const keys = exits.map((_, i) => `exit/${i}`);
  const nodes = exits.map(({ node, head }, i): HeadedNode => {
    const place = { node: checkText(`exits[${i}].node`, node), key: keys[i]! };
    if (!head) return place;
    const linear = readHead(`exits[${i}].head`, head);
    return { ...place, pool: linear.pool, attach: (...at) => withLinearHead(...at, linear) };
  });
  const whole = await withHeads(model, [...nodes, { node: final.request, key: final.key }], {
    ...rewriting,
    outputDtype: 'float32',
    fillTypes: false,
  });
  const { inputs } = whole;
  checkBatch(inputs);
  const { graph } = modelInternals.of(whole);
  const outputs = [...keys, final.key].map((key) => graph.values.get(key)!);
  const cut = cutGraph(graph, { outputs: outputsOf(outputs, 'exit') });
  const parts = formExits(cut, outputs);
  const models = await cutStages(whole, parts, NO_SIZES);
  const stages = parts.map((part, i) => ({
    model: models[i]!,
    inputs: part.inputs.map(({ name }) => name),
    logits: outputs[i]!.name,
  }));
  for (const [i, stage] of stages.entries()) checkRows(stage, i, inputs);
  return { inputs, stages };
}

function checkBatch(inputs: readonly TensorInfo[]): void {
  const fixed = inputs.find(({ dims }) => typeof dims?.[0] === 'number' && dims[0] > 1);
  if (!fixed) return;
  throw impossible(
    `the graph takes ${fixed.dims![0]} rows at a time, so single rows cannot leave; export it with a dynamic batch, or try batch: 'dynamic'`,
  );
}

/** Refuses tensors that later stages read and that have a fixed number of rows, though the batch is open. */
function checkRows({ model }: ExitStage, stage: number, given: readonly TensorInfo[]): void {
  const isOpen = given.every(({ dims }) => typeof dims?.[0] !== 'number');
  const odd = inputsOf(model).find(({ dims }) => dims?.length === 0 || typeof dims?.[0] === 'number');
  if (!odd || !isOpen) return;
  throw impossible(
    `rows cannot leave before stage ${stage}: it reads "${odd.name}" of dims [${odd.dims!.join(', ')}], which has no row per sample`,
  );
}

/** The one node that all exits predict. Throws `OPTION_INVALID`. */
export function onlyNode(pairs: readonly ReturnNode[]): ReturnNode {
  const [final, ...others] = pairs;
  if (others.length === 0 && final!.key !== 'exits') return final!;
  const expected = 'one node, under another key than "exits": what each exit predicts';
  throw invalidOption('returnNodes', expected, pairs.map(({ key }) => show(key)).join(', '));
}
