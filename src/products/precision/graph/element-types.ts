/** The element types of values: as the file states them, else as they follow from the operators. */
import { ELEMENT_TYPE, elementTypeNumber } from '../../../onnx/file/wire/schema.js';
import type { Node, Value } from '../../../onnx/graph/graph.js';
import type { Cut } from '../../../onnx/graph/rewrite/prune.js';
import { operatorOf } from '../../../onnx/graph/operators/operators.js';

/** ONNX's number of a value's element type; undefined if it is not known, or the value is no tensor. */
export type ElementTypeOf = (value: Value) => number | undefined;

/**
 * Finds the element types of the values of a cut.
 *
 * @param stated - What is known without the operators: from the file, or from a session.
 * @param attributeType - The type that an attribute of a node states: of Cast, Constant and the like.
 */
export function elementTypes(
  { graph, nodes }: Cut,
  stated: ElementTypeOf,
  attributeType: (node: Node) => number | undefined,
): ElementTypeOf {
  const types = new Map<Value, number | undefined>();
  const typeOf: ElementTypeOf = (value) =>
    types.get(value) ?? stated(value) ?? (value.producer ? undefined : value.initializer?.elemType);
  for (const node of graph.nodes) {
    if (!nodes.has(node)) continue;
    for (const [slot, output] of node.outputs.entries())
      if (output && typeOf(output) === undefined)
        types.set(output, resultType(node, slot, typeOf, attributeType));
  }
  return typeOf;
}

function resultType(
  node: Node,
  slot: number,
  typeOf: ElementTypeOf,
  attributeType: (node: Node) => number | undefined,
): number | undefined {
  const { types } = operatorOf(node) ?? { types: [] };
  const type = types[slot] ?? types.at(-1) ?? 'unknown';
  if (typeof type === 'number') {
    const input = node.inputs[type];
    return input && typeOf(input);
  }
  if (type === 'stated')
    return attributeType(node) ?? (node.opType === 'ConstantOfShape' ? ELEMENT_TYPE.float32 : undefined);
  return elementTypeNumber(type);
}
