/** A graph → a rewrite whose outputs are gradients. */
import type { NewNode, NewValue, TensorType } from '../../onnx/file/wire/write-model.js';
import type { Value } from '../../onnx/graph/graph.js';
import { opsetOf } from '../../onnx/graph/operator-sets.js';
import { FreshNames, keptNames } from '../../onnx/graph/rewrite/fresh-names.js';
import { NodeBuilder } from '../../onnx/graph/rewrite/node-builder.js';
import { cutGraph, outputsOf, type Cut, type CutOutput } from '../../onnx/graph/rewrite/prune.js';
import {
  startRewrite,
  type BackNode,
  type Rewrite,
  type RewriteOutput,
} from '../../onnx/graph/rewrite/rewrite.js';
import { backpropagate, type Gradients } from './backpropagate.js';
import type { GradientFacts } from './backward/backward.js';
import { GraphMath } from './backward/graph-math.js';
import { nameOpenSizes } from './open-sizes.js';
import { recompute } from './recompute.js';

/** A gradient to return: that of the objective with respect to a tensor. */
export interface GradientOutput extends CutOutput {
  /** How to permute the axes of the gradient; null leaves them as they are. */
  readonly perm: readonly number[] | null;
}

/** The objective is the sum of all targets, each multiplied by its seed, an input. The key of a target names that input. */
export interface GradientPlan {
  readonly targets: readonly CutOutput[];
  readonly gradients: readonly GradientOutput[];
  /** Values of the graph to return as well. */
  readonly returns: readonly CutOutput[];
  /** Values between which the forward pass is computed again in the backward pass; without them, all results are kept. */
  readonly recompute?: readonly Value[];
}

/**
 * Adds the backward pass to a graph, and cuts the graph down to what it needs. A gradient of a tensor that no target depends on is zeros, and
 * a note says so. Throws `GRADIENT_UNSUPPORTED`.
 *
 * @param forward - The part of the graph that targets and `returns` need.
 */
export function withGradients(forward: Cut, plan: GradientPlan, facts: GradientFacts): Rewrite {
  const { targets, gradients, returns } = plan;
  const typeOf = (value: Value): TensorType => ({
    elemType: facts.elemTypeOf(value) ?? 0,
    dims: facts.dimsOf(value) ?? null,
  });
  const names = freshNames(forward, plan);
  const seeds = targets.map(({ key, value }) => ({ name: names.claim(key), value }));
  const withRespectTo = [...new Set(gradients.map(({ value }) => value))];
  const request = { seeds: new Map(seeds.map(({ name, value }) => [value, name])), withRespectTo };
  const back = backpropagate(forward, request, nameOpenSizes(forward, facts), names);
  const builder = new NodeBuilder(names, 'gradient', opsetOf(forward.graph));
  const finished = finish(back, gradients, facts, builder);
  const needed = keepNeeded(finished);
  const again = recompute(
    {
      forward,
      keep: plan.recompute ?? [],
      nodes: needed.nodes,
      gradients: back.of,
      seeds: seeds.map(({ name }) => name),
    },
    names,
  );
  const { nodes } = again;
  const started = startRewrite(cutAgain(forward, plan, nodes, finished.outputs), false, typeOf);
  return {
    ...started,
    outputs: [...started.outputs.slice(0, returns.length), ...finished.outputs],
    inputs: seeds.map(({ name, value }): NewValue => {
      const { elemType, dims } = typeOf(value);
      return { name, elemType, dims };
    }),
    back: nodes,
    tensors: [...needed.tensors, ...again.tensors],
    names,
    notes: finished.notes,
  };
}

function freshNames(forward: Cut, { targets, gradients, returns }: GradientPlan): FreshNames {
  const nodes = [...forward.nodes].map((node) => node.name);
  const keys = [...targets, ...gradients, ...returns].map(({ key }) => key);
  return new FreshNames([...keptNames(forward), ...nodes], keys);
}

interface Finished extends Pick<Gradients, 'nodes' | 'tensors'> {
  readonly outputs: readonly RewriteOutput[];
  readonly notes: readonly string[];
}

/** Brings gradients into the asked form, and adds those that are zero. */
function finish(
  { nodes, tensors, of }: Gradients,
  gradients: readonly GradientOutput[],
  facts: GradientFacts,
  builder: NodeBuilder,
): Finished {
  const scalars = new Map<string, string>();
  const notes: string[] = [];
  const outputs = gradients.map(({ perm, ...output }): RewriteOutput => {
    const { value, request } = output;
    const elemType = facts.elemTypeOf(value) ?? 0;
    const dims = facts.dimsOf(value) ?? null;
    const math = new GraphMath(builder, elemType, scalars);
    const found = of.get(value);
    if (found === undefined) notes.push(`no target depends on "${request}": its gradient is zero everywhere`);
    const gradient = found ?? math.expand(0, math.sizes(value.name));
    return {
      ...output,
      tensor: perm ? math.transpose(gradient, perm) : gradient,
      type: { elemType, dims: dims && perm ? perm.map((axis) => dims[axis]!) : dims },
      layout: undefined,
      tokens: null,
      computed: ['gradient'],
    };
  });
  return { nodes: [...nodes, ...builder.nodes], tensors: [...tensors, ...builder.tensors], outputs, notes };
}

/** Those of the added nodes and tensors that outputs depend on. */
function keepNeeded({ nodes, tensors, outputs }: Finished): Pick<Gradients, 'nodes' | 'tensors'> {
  const needed = new Set(outputs.map(({ tensor }) => tensor));
  const kept: NewNode[] = [];
  for (const node of nodes.toReversed()) {
    if (!node.outputs.some((name) => needed.has(name))) continue;
    for (const name of node.inputs) needed.add(name);
    kept.push(node);
  }
  return { nodes: kept.toReversed(), tensors: tensors.filter(({ name }) => needed.has(name)) };
}

/** The part of the graph that the backward pass reads, with the gradients as outputs. */
function cutAgain(
  { graph }: Cut,
  { returns }: GradientPlan,
  nodes: readonly BackNode[],
  gradients: readonly RewriteOutput[],
): Cut {
  const read = new Set(nodes.flatMap((node) => node.inputs).flatMap((name) => graph.values.get(name) ?? []));
  const needed = outputsOf(read, 'gradient');
  return {
    ...cutGraph(graph, { outputs: [...returns, ...needed] }),
    outputs: [...returns, ...gradients.map(({ request, key, value, why }) => ({ request, key, value, why }))],
  };
}
