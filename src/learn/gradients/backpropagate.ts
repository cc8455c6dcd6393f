/**
 * Reverse-mode differentiation: walks the nodes between the tensors to differentiate and the targets backwards, and adds up the
 * gradients of tensors that are read several times.
 */
import { isFloatType } from '../../onnx/file/wire/schema.js';
import type { NewNode, NewTensor } from '../../onnx/file/wire/write-model.js';
import { tensorType, type Value } from '../../onnx/graph/graph.js';
import { opsetOf } from '../../onnx/graph/operator-sets.js';
import type { FreshNames } from '../../onnx/graph/rewrite/fresh-names.js';
import type { Cut } from '../../onnx/graph/rewrite/prune.js';
import { Backward, unsupported, type GradientFacts, type Walk } from './backward/backward.js';
import { isDetached, ruleOf } from './rules/rule-of.js';

/** Before, operators that rules need have other forms. */
const LEAST_OPSET = 10;

/** What to differentiate. */
export interface GradientRequest {
  /** The gradients to start from: the tensors that hold them, by target. */
  readonly seeds: ReadonlyMap<Value, string>;
  readonly withRespectTo: readonly Value[];
}

/** The backward pass as nodes, in execution order. */
export interface Gradients {
  readonly nodes: readonly NewNode[];
  readonly tensors: readonly NewTensor[];
  /** The tensors that hold the gradients of all values on the way. Gradients of values that no target depends on are zero, and missing. */
  readonly of: ReadonlyMap<Value, string>;
}

/**
 * Differentiates targets with respect to other tensors of a cut graph.
 *
 * @throws {@link TapirError} `GRADIENT_UNSUPPORTED` for a node between them that has no rule, or not for these inputs or attributes.
 */
export function backpropagate(
  cut: Cut,
  { seeds, withRespectTo }: GradientRequest,
  facts: GradientFacts,
  names: FreshNames,
): Gradients {
  const nodes: NewNode[] = [];
  const tensors: NewTensor[] = [];
  const contributions = new Map<Value, string[]>();
  for (const [value, seed] of seeds) contributions.set(value, [seed]);
  const opset = opsetOf(cut.graph);
  const walk: Walk = { facts, names, scalars: new Map(), opset };
  const carries = valuesThatDepend(cut, withRespectTo, facts.elemTypeOf);

  const totalOf = (value: Value): string | undefined => {
    const parts = contributions.get(value) ?? [];
    if (parts.length < 2) return parts[0];
    const output = names.take('tapir/gradient/Sum_output_0');
    nodes.push({
      name: names.take('tapir/gradient/Sum'),
      opType: parts.length === 2 ? 'Add' : 'Sum',
      inputs: parts,
      outputs: [output],
    });
    contributions.set(value, [output]);
    return output;
  };

  for (const node of cut.graph.nodes.toReversed()) {
    if (!cut.nodes.has(node)) continue;
    const isReached = node.outputs.some(
      (output) => output && carries.has(output) && contributions.has(output),
    );
    if (!isReached || !node.reads.some((value) => carries.has(value))) continue;
    if (opset < LEAST_OPSET)
      throw unsupported(
        node,
        `gradients need operator set ${LEAST_OPSET}, and the model uses ${opset}; convert it first (onnx.version_converter)`,
      );
    const rule = ruleOf(node);
    const gradients = node.outputs.map((output) => output && totalOf(output));
    const elemType = facts.elemTypeOf(node.outputs[gradients.findIndex((name) => name !== undefined)]!)!;
    const backward = new Backward(walk, node, elemType, gradients);
    const inputs = rule(backward);
    for (const [position, value] of node.inputs.entries()) {
      if (!value || !carries.has(value)) continue;
      const compute =
        inputs[position] ?? backward.refuse(`it cannot be differentiated with respect to "${value.name}"`);
      const gradient = compute();
      if (gradient !== undefined) contributions.set(value, [...(contributions.get(value) ?? []), gradient]);
    }
    nodes.push(...backward.nodes.nodes);
    tensors.push(...backward.nodes.tensors);
  }
  for (const value of withRespectTo) totalOf(value);
  const whole = [...contributions].filter(([, parts]) => parts.length === 1);
  return { nodes, tensors, of: new Map(whole.map(([value, [gradient]]) => [value, gradient!])) };
}

/**
 * Checks that every operator between targets and tensors has a rule. It needs no types, so an unknown operator is named before a
 * runtime refuses the model. Throws `GRADIENT_UNSUPPORTED`.
 */
export function checkOperators(cut: Cut, targets: readonly Value[], withRespectTo: readonly Value[]): void {
  const stated = (value: Value): number | undefined => tensorType(value)?.elemType;
  const depends = valuesThatDepend(cut, withRespectTo, stated);
  const reached = new Set(targets);
  for (const node of cut.graph.nodes.toReversed()) {
    if (!cut.nodes.has(node) || !node.outputs.some((output) => output && reached.has(output))) continue;
    const read = node.reads.filter((value) => depends.has(value));
    if (read.length > 0) ruleOf(node);
    for (const value of read) reached.add(value);
  }
}

/** The float tensors that depend on given ones through float tensors, and these themselves. */
function valuesThatDepend(
  cut: Cut,
  on: readonly Value[],
  elemTypeOf: GradientFacts['elemTypeOf'],
): ReadonlySet<Value> {
  const found = new Set(on);
  for (const node of cut.graph.nodes) {
    // The second input of CastLike only states the type.
    const reads = node.opType === 'CastLike' ? [node.inputs[0]!] : node.reads;
    if (!cut.nodes.has(node) || !reads.some((value) => found.has(value)) || isDetached(node)) continue;
    for (const output of node.outputs) {
      const elemType = output && elemTypeOf(output);
      // A sequence or an optional has no element type, and may hold what depends on the tensor.
      if (output && (elemType === undefined || isFloatType(elemType))) found.add(output);
    }
  }
  return found;
}
