/** Chooses the nodes of a rewrite that compute in float16. */
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import { operatorKey } from '../../../onnx/file/scan/scan-body.js';
import type { Node, Value } from '../../../onnx/graph/graph.js';
import { nodeRoles, type Role } from '../../../onnx/graph/roles.js';
import { editOf, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { isConstant } from './constants.js';
import type { ElementTypeOf } from './element-types.js';
import { halfForm, keptReason, readsAnyType } from './half-forms.js';

/** What decides about nodes, besides the tables of operators. */
export interface PrecisionRules {
  readonly typeOf: ElementTypeOf;
  /** Operators that stay in float32 as well. */
  readonly keep: ReadonlySet<string>;
  /** Operators that compute in float16 although the tables keep them. */
  readonly convert: ReadonlySet<string>;
  /** Nodes that cannot compute in float16 because of their constants or attributes, with the reason. */
  readonly blocked: ReadonlyMap<Node, string>;
}

export interface NodeChoice {
  /** The nodes that compute in float16. */
  readonly half: ReadonlySet<Node>;
  /** The nodes that read or write float32 tensors and stay so for a reason other than what they read, in execution order. */
  readonly kept: ReadonlyMap<Node, string>;
}

/** Chooses nodes in execution order, so that each knows whether what it reads is float16. Linear in nodes and edges. */
export function chooseNodes(rewrite: Rewrite, rules: PrecisionRules): NodeChoice {
  const { graph, nodes } = rewrite.cut;
  const half = new Set<Node>();
  const kept = new Map<Node, string>();
  const roles = nodeRoles(graph);
  for (const node of graph.nodes) {
    if (!nodes.has(node) || !touchesFloat32(node, rules.typeOf) || readsAnyType(node)) continue;
    const reason = reasonToKeep(rewrite, node, roles.get(node) ?? 'constant', rules);
    if (reason !== undefined) kept.set(node, reason);
    else if (isJoining(node, half, rules)) half.add(node);
  }
  return { half, kept };
}

function touchesFloat32({ reads, outputs }: Node, typeOf: ElementTypeOf): boolean {
  return [...reads, ...outputs].some((value) => value && isFloat32(value, typeOf));
}

function reasonToKeep(
  rewrite: Rewrite,
  node: Node,
  role: Role,
  { typeOf, keep, convert, blocked }: PrecisionRules,
): string | undefined {
  const { domain, opType, inputs, outputs, scanned } = node;
  if (scanned.bodies) return 'its bodies read float32';
  if (domain !== '' || rewrite.cut.graph.functions.has(operatorKey(node)))
    return 'it is a function, or an operator of another domain';
  if (keep.has(opType)) return 'you keep it (keep)';
  const form = convert.has(opType) ? 'follows' : halfForm(opType);
  if (form === undefined) return keptReason(opType);
  if (blocked.has(node)) return blocked.get(node);
  if (role === 'shape' && form !== 'moves') return 'it computes sizes';
  if (role === 'constant' && form !== 'moves') return 'it computes a constant, once';
  if (opType === 'BatchNormalization' && outputs.filter(Boolean).length > 1) return keptReason('ReduceMean');
  if (opType === 'Mul' && inputs[0] === inputs[1]) return 'a square overflows above 255';
  const present = [...inputs, ...outputs].filter((value) => value !== undefined);
  const types = new Set(present.map(typeOf));
  if (types.has(undefined)) return 'a type is not known';
  const { float16, float64, bfloat16 } = ELEMENT_TYPE;
  if ([float16, float64, bfloat16].some((type) => types.has(type)))
    return 'it has another floating-point type already';
  const edit = editOf(rewrite, node);
  const isPatched =
    inputs.some((value, slot) => value && isFloat32(value, typeOf) && edit.inputs.has(slot)) ||
    outputs.some((value, slot) => value && isFloat32(value, typeOf) && edit.outputs.has(slot));
  return isPatched ? 'a part that was added to the graph reads or feeds it' : undefined;
}

function isFloat32(value: Value, typeOf: ElementTypeOf): boolean {
  return typeOf(value) === ELEMENT_TYPE.float32;
}

/** Whether a node that may compute in float16 does so. */
function isJoining(node: Node, half: ReadonlySet<Node>, { typeOf, convert }: PrecisionRules): boolean {
  const form = convert.has(node.opType) ? 'follows' : halfForm(node.opType);
  if (form === 'computes') return true;
  const computed = node.inputs.filter(
    (value) => value !== undefined && isFloat32(value, typeOf) && !isConstant(value),
  );
  // Nothing but constants is moved: a class token, or a table of positions.
  if (computed.length === 0) return form === 'moves';
  return computed.some((value) => value?.producer !== undefined && half.has(value.producer));
}
