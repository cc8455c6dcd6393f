/** Cuts a graph into stages at its norms: all norms of a stage are computed before the next one begins. Pure and linear. */
import type { Graph, Node, Value } from '../../../onnx/graph/graph.js';
import { nodeRoles } from '../../../onnx/graph/roles.js';
import type { Norm } from '../../../onnx/graph/rewrite/norm-statistics.js';
import { cutGraph, outputsOf, type Cut, type CutOutput } from '../../../onnx/graph/rewrite/prune.js';

/** A stage: the nodes after the norms of the stages before it. */
export interface NormStage {
  /** The norms whose inputs it computes. */
  readonly norms: readonly Norm[];
  /** The asked outputs that it computes. */
  readonly outputs: readonly CutOutput[];
  /** Tensors of earlier stages that it reads. */
  readonly takes: readonly Value[];
  /** Tensors that later stages read. */
  readonly gives: readonly Value[];
  /** Tensors of earlier stages that nothing reads after it. */
  readonly frees: readonly Value[];
}

/** The part of a graph that computes what norms normalise, and further outputs. */
export function cutToNorms(graph: Graph, norms: readonly Norm[], outputs: readonly CutOutput[] = []): Cut {
  const inputs = norms.map(({ input }) => input);
  return cutGraph(graph, { outputs: [...outputsOf(inputs, 'norm'), ...outputs] });
}

/** Cuts a graph into stages. A node is in the stage of the most norms on a way to it, so norms that are independent share one. */
export function stagesOf(
  graph: Graph,
  norms: readonly Norm[],
  outputs: readonly CutOutput[] = [],
): NormStage[] {
  const { outputs: all, nodes } = cutToNorms(graph, norms, outputs);
  const roles = nodeRoles(graph);
  const isNorm = new Set(norms.filter(({ added }) => !added).map(({ node }) => node));
  const isNormalised = new Set(norms.filter(({ added }) => added).map(({ input }) => input));
  const stages = new Map<Node, number>();
  const stageOf = ({ producer }: Value): number => (producer && stages.get(producer)) ?? 0;
  for (const node of graph.nodes) {
    if (!nodes.has(node)) continue;
    const depths = node.reads.map((value) => stageOf(value) + (isNormalised.has(value) ? 1 : 0));
    stages.set(node, depths.reduce((most, depth) => Math.max(most, depth), 0) + (isNorm.has(node) ? 1 : 0));
  }
  const count = 1 + Math.max(...all.map(({ value }) => stageOf(value)));
  const drafts = Array.from({ length: count }, () => ({
    norms: [] as Norm[],
    outputs: [] as CutOutput[],
    takes: [] as Value[],
    gives: [] as Value[],
    frees: [] as Value[],
  }));
  for (const norm of norms) drafts[stageOf(norm.input)]!.norms.push(norm);
  for (const output of outputs) drafts[stageOf(output.value)]!.outputs.push(output);
  for (const [node, stage] of stages) {
    // What does not depend on the input is computed again in each stage.
    if (roles.get(node) === 'constant') continue;
    for (const value of node.outputs) {
      const readers = (value?.uses ?? []).map((user) => stages.get(user) ?? 0);
      const later = [...new Set(readers)].filter((reader) => reader > stage);
      if (!value || later.length === 0) continue;
      drafts[stage]!.gives.push(value);
      for (const reader of later) drafts[reader]!.takes.push(value);
      drafts[Math.max(...later)]!.frees.push(value);
    }
  }
  return drafts;
}

/** The part of a graph that a stage computes. */
export function cutToStage(graph: Graph, { norms, outputs, takes, gives }: NormStage): Cut {
  const values = new Set([
    ...gives,
    ...norms.map(({ input }) => input),
    ...outputs.map(({ value }) => value),
  ]);
  return cutGraph(graph, {
    outputs: outputsOf(values, 'norm'),
    ...(takes.length > 0 ? { inputs: [...takes, ...graph.inputs] } : {}),
  });
}
