/** All rules by operator. */
import type { Node } from '../../../onnx/graph/graph.js';
import { operatorOf } from '../../../onnx/graph/operators/operators.js';
import { unsupported, type Rule } from '../backward/backward.js';
import { activations } from './activation.js';
import { arithmetic } from './elementwise.js';
import { attentions } from './attention.js';
import { convolutions } from './convolution.js';
import { indexing } from './indexing.js';
import { products } from './matrix-product.js';
import { normalizations } from './normalization.js';
import { pools } from './pooling.js';
import { reductions } from './reduction.js';
import { resampling } from './resampling.js';
import { shapes } from './shape.js';

/** By operator. */
export const GRADIENT_RULES: ReadonlyMap<string, Rule> = new Map(
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

const detached: Rule = ({ node }) => node.inputs.map(() => () => undefined);

/** The rule of a node's operator. Throws `GRADIENT_UNSUPPORTED` for an operator without one. */
export function ruleOf(node: Node): Rule {
  if (isDetached(node)) return detached;
  const rule = node.domain === '' ? GRADIENT_RULES.get(node.opType) : undefined;
  if (rule) return rule;
  throw unsupported(
    node,
    node.scanned.bodies ? 'it runs its own graph' : 'onnx-tapir has no rule for this operator',
  );
}

/** Whether no gradient flows through a node: its results are integers, or steps. */
export function isDetached(node: Node): boolean {
  return operatorOf(node)?.isStep === true;
}
