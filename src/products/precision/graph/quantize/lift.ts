/** Whether a graph means the same in a newer operator set. */
import type { AttributesOf } from '../constants.js';
import type { Cut } from '../../../../onnx/graph/rewrite/prune.js';

/** The oldest operator set that is lifted. */
const LEAST = 9;

/** The operators of the default domain that change between operator sets 9 and 13, by the set that changes them. */
const CHANGED: readonly (readonly [set: number, operators: readonly string[]])[] = [
  [10, ['Resize', 'Slice', 'TopK', 'Upsample']],
  [11, ['Clip', 'OneHot', 'Pad', 'Resize', 'ScatterElements', 'Scatter', 'TopK']],
  [12, ['Dropout']],
  [13, ['Hardmax', 'LogSoftmax', 'ReduceSum', 'Softmax', 'Split', 'Squeeze', 'Unsqueeze']],
];

/** Attributes without which an operator of operator set 13 means what it meant before. */
const UNLESS: ReadonlyMap<string, string> = new Map([
  ['Dropout', 'ratio'],
  ['ReduceSum', 'axes'],
  ['Split', 'split'],
  ['Squeeze', 'axes'],
]);

/** Why a cut cannot be moved from an operator set to 13; undefined if it can. */
export function whyNotLifted(
  { nodes, functions }: Cut,
  opset: number,
  attributesOf: AttributesOf,
): string | undefined {
  if (opset >= 13) return undefined;
  if (opset < LEAST) return `it uses operator set ${opset}`;
  if (functions.size > 0) return `it uses operator set ${opset} and has functions`;
  for (const node of nodes) {
    const { domain, opType, scanned } = node;
    if (scanned.bodies) return `it uses operator set ${opset} and has bodies (${opType})`;
    const [changed = 0] = CHANGED.findLast(([, operators]) => operators.includes(opType)) ?? [];
    if (domain !== '' || changed <= opset) continue;
    const unless = UNLESS.get(opType);
    if (unless === undefined || attributesOf(node).has(unless))
      return `it uses operator set ${opset}, and ${opType} means something else since ${changed}`;
  }
  return undefined;
}
