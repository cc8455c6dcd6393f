/** Follows the batch through matrix products. */
import type { Node } from '../graph.js';
import { moveAxis } from './batch-axis.js';
import { refuse, type BatchWalk } from './batch-walk.js';

const SUMS = 'sums over the batch';

/** MatMul and its quantised forms. @param a - Position of the left operand. @param b - Of the right one. */
export function matMul(a: number, b: number) {
  return (walk: BatchWalk, node: Node): void => {
    const [output] = node.outputs;
    const rank = walk.dimsOf(node, output).length;
    const left = { at: walk.axisOf(node.inputs[a]), rank: walk.dimsOf(node, node.inputs[a]).length };
    const right = { at: walk.axisOf(node.inputs[b]), rank: walk.dimsOf(node, node.inputs[b]).length };
    const isSummed =
      left.at?.axis === left.rank - 1 || (right.at && right.at.axis === Math.max(right.rank - 2, 0));
    if (isSummed) refuse(node, SUMS);
    const isRows = left.at !== undefined && left.at.axis === left.rank - 2;
    const isColumns = right.at !== undefined && right.at.axis === right.rank - 1;
    if (isRows || isColumns) {
      if (left.at && right.at) refuse(node, 'multiplies samples with one another');
      const axis = isColumns || right.rank === 1 ? rank - 1 : rank - 2;
      return walk.setAxis(node, output, moveAxis((left.at ?? right.at)!, axis));
    }
    const { fromRight, split } = walk.alignBroadcast(node, [a, b]);
    // A vector adds no axis of rows or columns to the product.
    const removed = left.rank === 1 || right.rank === 1 ? 1 : 0;
    walk.setAxis(node, output, moveAxis(split, rank - fromRight + removed));
  };
}

export function gemm(walk: BatchWalk, node: Node): void {
  const [a, b, c] = node.inputs;
  const left = walk.axisOf(a);
  const right = walk.axisOf(b);
  const at = left ?? right;
  if (!at || (left && right)) refuse(node, 'multiplies samples with one another');
  const rows = walk.int(node, 'transA') === 1 ? 1 : 0;
  const columns = walk.int(node, 'transB') === 1 ? 0 : 1;
  if (at.axis !== (left ? rows : columns)) refuse(node, SUMS);
  const out = moveAxis(at, left ? 0 : 1);
  const added = c && walk.axisOf(c);
  const axis = c ? walk.dimsOf(node, c).length - 2 + out.axis : -1;
  if (added && added.axis !== axis) refuse(node, 'adds a tensor with the batch in another place');
  if (c && !added && (walk.dimsOf(node, c)[axis] ?? 1) !== 1) walk.repeat(node, 2, moveAxis(at, axis));
  walk.setAxis(node, node.outputs[0], out);
}

export function einsum(walk: BatchWalk, node: Node): void {
  const equation = walk.facts.attributesOf(node).get('equation')?.text?.replaceAll(' ', '') ?? '';
  const [terms, result] = equation.split('->');
  if (terms === undefined || result === undefined || equation.includes('.'))
    refuse(node, `has the equation "${equation}"`);
  const operands = terms.split(',');
  const letters = new Set(
    operands.flatMap((term, i) => {
      const at = walk.axisOf(node.inputs[i]);
      return at ? [term[at.axis]!] : [];
    }),
  );
  const [letter] = letters;
  if (letter === undefined || letters.size > 1)
    refuse(node, 'reads tensors with the batch in different places');
  if (!result.includes(letter)) refuse(node, SUMS);
  const at = walk.axisOf(node.inputs[walk.batchedInputs(node)[0]!])!;
  for (const [i, term] of operands.entries())
    if (term.includes(letter)) walk.alignExactly(node, [i], moveAxis(at, term.indexOf(letter)));
  walk.setAxis(node, node.outputs[0], moveAxis(at, result.indexOf(letter)));
}
