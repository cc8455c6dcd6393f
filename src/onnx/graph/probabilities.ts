/** The operator at the end of a classifier that makes probabilities of its scores. */
import type { Node, Value } from './graph.js';

const MAKES_PROBABILITIES: ReadonlySet<string> = new Set(['Softmax', 'LogSoftmax', 'Sigmoid']);

/** Returns the Softmax, LogSoftmax or Sigmoid that a value comes from; undefined for all other values. Identity nodes are followed. */
export function findProbabilities(value: Value): Node | undefined {
  let node = value.producer;
  while (node?.opType === 'Identity' && node.domain === '') node = node.inputs[0]?.producer;
  return node && node.domain === '' && MAKES_PROBABILITIES.has(node.opType) ? node : undefined;
}
