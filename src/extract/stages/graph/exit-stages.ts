/** The stages of a network that rows may leave early: each computes one exit more. Pure. */
import type { Node, Value } from '../../../onnx/graph/graph.js';
import { nodeRoles } from '../../../onnx/graph/roles.js';
import type { Cut } from '../../../onnx/graph/rewrite/prune.js';
import type { StagePart } from './stages.js';

/**
 * Forms one stage per exit. A stage holds the nodes that its exit needs and no earlier one does. It takes tensors with a row per
 * sample, so that rows can leave: what is computed from sizes alone belongs to each stage that reads it, and is computed again from
 * the rows that are left.
 */
export function formExits(cut: Cut, exits: readonly Value[]): StagePart[] {
  const roles = nodeRoles(cut.graph);
  const stageOf = new Map<Node, number>();
  const parts = exits.map((exit) => ({
    nodes: [] as Node[],
    inputs: [] as Value[],
    outputs: new Set([exit]),
  }));
  for (const [stage, exit] of exits.entries()) {
    const { nodes, inputs } = parts[stage]!;
    const seen = new Set<Value>();
    const open = [exit];
    for (let value = open.pop(); value; value = open.pop()) {
      if (seen.has(value)) continue;
      seen.add(value);
      const { producer } = value;
      const made = producer && stageOf.get(producer);
      if (cut.inputs.includes(value) || (made !== undefined && made < stage)) {
        inputs.push(value);
        if (made !== undefined) parts[made]!.outputs.add(value);
      } else if (producer && made === undefined) {
        if (roles.get(producer) === 'data') {
          stageOf.set(producer, stage);
          nodes.push(producer);
        }
        open.push(...producer.reads);
      }
    }
  }
  return parts.map(({ nodes, inputs, outputs }) => ({
    nodes: nodes.toSorted((a, b) => a.index - b.index),
    inputs,
    outputs: [...outputs],
  }));
}
