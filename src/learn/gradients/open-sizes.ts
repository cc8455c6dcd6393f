/**
 * Names for sizes that the runtime leaves open: a name stands for one size everywhere, so two tensors with one name need no check when
 * the graph runs. A network with open height and width has such sizes after its first convolution.
 */
import type { Value } from '../../onnx/graph/graph.js';
import type { Cut } from '../../onnx/graph/rewrite/prune.js';
import { sizesOf, type Dims, type SizeFacts } from '../../onnx/graph/size-rules.js';
import type { GradientFacts } from './backward/backward.js';

/** The facts with names for open sizes. */
export function nameOpenSizes(cut: Cut, facts: GradientFacts): GradientFacts {
  const named = new Map<Value, Dims>();
  const dimsOf = (value: Value): Dims | undefined => named.get(value) ?? facts.dimsOf(value);
  const { attributesOf, integersOf } = facts;
  const known: SizeFacts = {
    dimsOf: (value) => value && dimsOf(value),
    attributesOf,
    integersOf,
    nameSize: (formula) => formula,
  };
  for (const node of cut.graph.nodes) {
    const [output] = node.outputs;
    if (!cut.nodes.has(node) || !output) continue;
    const stated = facts.dimsOf(output);
    if (stated?.every((size) => size !== null)) continue;
    const derived = sizesOf(node, known);
    if (!derived || (stated && stated.length !== derived.length)) continue;
    named.set(
      output,
      derived.map((size, axis) => stated?.[axis] ?? size),
    );
  }
  return { ...facts, dimsOf };
}
