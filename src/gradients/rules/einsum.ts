/** The rule of Einsum: an Einsum of the gradient with all other operands. */
import type { Dim } from '../../onnx/wire/schema.js';
import type { Backward } from '../backward/backward.js';
import type { Rule } from '../backward/rule.js';

interface Equation {
  readonly operands: readonly string[];
  readonly result: string;
}

/** Reads `ij,jk->ik`; without an arrow, the result has the labels that occur once, in alphabetical order. */
function readEquation(b: Backward): Equation {
  const text = b.text('equation', '').replaceAll(' ', '');
  const [left = '', right] = text.split('->');
  const operands = left.split(',');
  const isPlain = (labels: string): boolean =>
    /^[A-Za-z]*$/.test(labels) && new Set(labels).size === labels.length;
  if (![...operands, right ?? ''].every(isPlain))
    b.refuse(`its equation "${text}" has an ellipsis or a label twice in one operand`);
  const all = left.replaceAll(',', '');
  const once = [...new Set(all)].filter((label) => all.split(label).length === 2);
  return { operands, result: right ?? once.toSorted().join('') };
}

export const einsum: Rule = (b) => {
  const { operands, result } = readEquation(b);
  const sizes = new Map<string, Dim>();
  for (const [position, labels] of operands.entries()) {
    const dims = b.dims(b.value(position));
    for (const [axis, label] of labels.split('').entries())
      if ((sizes.get(label) ?? 1) === 1) sizes.set(label, dims[axis]!);
  }
  return operands.map((labels, position) => () => {
    const others = operands.filter((_, other) => other !== position);
    const known = labels
      .split('')
      .filter((label) => [result, ...others].some((from) => from.includes(label)));
    const inputs = operands.flatMap((_, other) => (other === position ? [] : [b.input(other)]));
    const equation = `${[result, ...others].join(',')}->${known.join('')}`;
    const gradient = b.nodes.add('Einsum', [b.dy, ...inputs], { equation });
    const value = b.value(position);
    if (known.length === labels.length)
      return b.fit(
        gradient,
        labels.split('').map((label) => sizes.get(label) ?? null),
        value,
      );
    // The product sums over a label that only this operand has: the gradient is the same along it.
    const missing = labels.split('').flatMap((label, axis) => (known.includes(label) ? [] : [axis]));
    return b.expand(b.unsqueeze(gradient, missing), b.shape(value));
  });
};
