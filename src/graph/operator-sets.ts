/** Versions of ONNX's default operator set, which decide the forms that added nodes take. */
import type { Graph } from './graph.js';

/** The oldest operator set whose arithmetic broadcasts, which all added nodes rely on. */
export const MIN_OPSET = 8;
/** The operator set of added nodes in a model that does not import the default domain. */
export const ADDED_OPSET = 13;

/** The version of ONNX's default operator set that the model uses. */
export function opsetOf(graph: Graph): number {
  return graph.model.opsets.get('') ?? ADDED_OPSET;
}
