/** All rules by operator. */
import type { Node } from '../graph.js';
import { unsupported } from './backward/backward.js';
import { detached, type Rule } from './backward/rule.js';
import { activations } from './rules/activation.js';
import { arithmetic } from './rules/elementwise.js';
import { attentions } from './rules/attention.js';
import { convolutions } from './rules/convolution.js';
import { indexing } from './rules/indexing.js';
import { products } from './rules/matrix-product.js';
import { normalizations } from './rules/normalization.js';
import { pools } from './rules/pooling.js';
import { reductions } from './rules/reduction.js';
import { resampling } from './rules/resampling.js';
import { shapes } from './rules/shape.js';

const RULES: ReadonlyMap<string, Rule> = new Map(
  Object.entries({
    ...activations,
    ...arithmetic,
    ...products,
    ...reductions,
    ...shapes,
    ...indexing,
    ...convolutions,
    ...normalizations,
    ...pools,
    ...resampling,
    ...attentions,
  }),
);

/**
 * The rule of a node's operator.
 *
 * @throws {@link TapirError} `GRADIENT_UNSUPPORTED` for an operator without one.
 */
export function ruleOf(node: Node): Rule {
  const rule = node.domain === '' ? RULES.get(node.opType) : undefined;
  if (rule) return rule;
  throw unsupported(
    node,
    node.scanned.bodies ? 'it runs its own graph' : 'onnx-tapir has no rule for this operator',
  );
}

/** Whether no gradient flows through a node: its results are integers, or steps. */
export function isDetached(node: Node): boolean {
  return node.domain === '' && RULES.get(node.opType) === detached;
}
