/** Types of computed values that follow from the inputs by the operators' rules, as a session would infer them. */
import { operatorKey } from '../file/scan/scan-body.js';
import { ELEMENT_TYPE, type Dim } from '../file/wire/schema.js';
import type { TensorType } from '../file/wire/write-model.js';
import { tensorType, type Graph, type Node, type Value } from './graph.js';
import { opsetOf } from './operator-sets.js';
import { operatorOf } from './operators/operators.js';
import type { Constants } from './read-constants.js';
import { sizesOf, type SizeFacts } from './size-rules.js';

/** Before the first, operators broadcast by other rules; the registry has the operators up to the last. */
const OPSETS = [7, 28] as const;

/** A type whose rank is known. */
type Known = TensorType & { readonly dims: readonly Dim[] };

/**
 * Derives the types of values. Those that no rule tells are left out.
 *
 * @param isAnew - Whatever the file states of the sizes of values between the inputs and these: exporters state sizes that they traced.
 */
export function deriveTypes(
  graph: Graph,
  constants: Constants,
  values: readonly Value[],
  isAnew: boolean,
): ReadonlyMap<Value, TensorType> {
  const derived = new Map<Value, Known>();
  const opset = opsetOf(graph);
  if (values.length === 0 || opset < OPSETS[0] || opset > OPSETS[1]) return derived;
  const typeOf = (value: Value | undefined): Known | undefined =>
    value && (derived.get(value) ?? (value.producer && !value.initializer ? undefined : statedType(value)));
  const facts: SizeFacts = {
    ...constants,
    dimsOf: (value) => typeOf(value)?.dims,
    // A session gives such a size no name.
    nameSize: () => null,
  };
  const needed = nodesBefore(values);
  for (const node of graph.nodes) {
    const [output] = node.outputs;
    if (!needed.has(node) || !output || output.initializer) continue;
    // A function of the file takes the place of an operator.
    if (graph.functions.size > 0 && graph.functions.has(operatorKey(node))) continue;
    const stated = tensorType(output);
    const elemType = elemTypeOf(node, typeOf, constants);
    if (elemType === undefined || (stated && stated.elemType !== 0 && stated.elemType !== elemType)) continue;
    const sizes = sizesOf(node, facts);
    const dims = isAnew ? sizes : joinSizes(stated?.dims, sizes);
    if (dims) derived.set(output, { elemType, dims });
  }
  return new Map(values.flatMap((value) => (derived.has(value) ? [[value, derived.get(value)!]] : [])));
}

function statedType(value: Value): Known | undefined {
  const { elemType = 0, dims } = tensorType(value) ?? {};
  return dims && elemType !== 0 ? { elemType, dims } : undefined;
}

/** What the file states and what follows, as ONNX Runtime joins them; undefined where they contradict each other, which it settles. */
function joinSizes(
  stated: readonly Dim[] | undefined,
  sizes: readonly Dim[] | undefined,
): readonly Dim[] | undefined {
  if (!stated) return sizes;
  if (!sizes) return stated.every((size) => typeof size === 'number') ? stated : undefined;
  const isSame = stated.every(
    (size, axis) => typeof size !== 'number' || typeof sizes[axis] !== 'number' || size === sizes[axis],
  );
  if (stated.length !== sizes.length || !isSame) return undefined;
  return stated.map((size, axis) =>
    typeof size !== 'number' && typeof sizes[axis] === 'number' ? sizes[axis] : (size ?? sizes[axis]!),
  );
}

/** The element type of a node's first output. */
function elemTypeOf(
  node: Node,
  typeOf: (value: Value | undefined) => Known | undefined,
  { attributesOf }: Constants,
): number | undefined {
  const type = node.domain === '' ? operatorOf(node)?.types[0] : undefined;
  if (type === undefined || type === 'unknown' || type === 'sequence') return undefined;
  if (type === 'stated') return node.opType === 'Cast' ? attributesOf(node).get('to')?.int : undefined;
  if (typeof type !== 'number') return ELEMENT_TYPE[type];
  // Since operator set 21, an attribute can state another type than the input that usually does.
  if (node.opType.endsWith('quantizeLinear') || node.opType === 'QuantizeLinear')
    if (attributesOf(node).get('output_dtype')?.int) return undefined;
  return typeOf(node.inputs[type])?.elemType;
}

/** All nodes that values depend on. */
function nodesBefore(values: readonly Value[]): ReadonlySet<Node> {
  const found = new Set<Node>();
  const open = [...values];
  for (let value = open.pop(); value; value = open.pop()) {
    const { producer } = value;
    if (!producer || found.has(producer)) continue;
    found.add(producer);
    for (const read of producer.inputs) if (read) open.push(read);
  }
  return found;
}
