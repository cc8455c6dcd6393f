/** Versions of ONNX's default operator set, which decide the forms that added nodes take. */
import type { Graph } from './graph.js';

/**
 * The operator sets since which added nodes can use an operator, unless that is the first one. Before, it does not exist, a Cast names its
 * type as text, or arithmetic broadcasts by other rules. ONNX Runtime implements neither.
 */
const SINCE: ReadonlyMap<string, number> = new Map([
  ['Cast', 6],
  ['Div', 7],
  ['Sub', 7],
  // Before, its inputs have one shape.
  ['Max', 8],
  ['Expand', 8],
  ['EyeLike', 9],
  ['OneHot', 9],
  ['Sign', 9],
  ['Where', 9],
  ['Range', 11],
  ['ScatterElements', 11],
]);

/** Why added nodes cannot use an operator in an operator set; undefined if they can. */
export function refuseOperator(opType: string, opset: number): string | undefined {
  const since = SINCE.get(opType) ?? 1;
  if (opset >= since) return undefined;
  return `ONNX Runtime runs ${opType}, which must be added, from operator set ${since} on, and the model uses ${opset}; convert the model first (onnx.version_converter)`;
}

/** The operator set of added nodes in a model that does not import the default domain. */
export const ADDED_OPSET = 13;

/** The version of ONNX's default operator set that the model uses. */
export function opsetOf(graph: Graph): number {
  return graph.model.opsets.get('') ?? ADDED_OPSET;
}
