/** Rules of matrix products. */
import type { Dim } from '../../../onnx/file/wire/schema.js';
import type { Value } from '../../../onnx/graph/graph.js';
import type { Backward, Rule, Rules } from '../backward/backward.js';
import { axesFrom, TO_THE_END } from '../backward/graph-math.js';

/** A matrix in place of a vector: a row on the left of a product, a column on the right. */
interface Operand {
  readonly name: string;
  readonly dims: readonly Dim[];
}

function asMatrix(b: Backward, value: Value, isLeft: boolean): Operand {
  const dims = b.dims(value);
  if (dims.length > 1) return { name: value.name, dims };
  return isLeft
    ? { name: b.unsqueeze(value.name, [0]), dims: [1, dims[0]!] }
    : { name: b.unsqueeze(value.name, [1]), dims: [dims[0]!, 1] };
}

/** Swaps the last two axes. */
function swapped(b: Backward, name: string, rank: number): string {
  return b.transpose(name, [...axesFrom(0, rank - 2), rank - 1, rank - 2]);
}

/**
 * Y = A·B: dA = dY·Bᵀ and dB = Aᵀ·dY, summed over the axes that were broadcast. With one matrix for all samples, the second is one
 * product over all rows.
 */
const matMul: Rule = (b) => {
  const [left, right] = [b.value(0), b.value(1)];
  const a = (): Operand => asMatrix(b, left, true);
  const c = (): Operand => asMatrix(b, right, false);
  const output = b.dims(b.output(0));
  const [isRow, isColumn] = [b.rank(left) === 1, b.rank(right) === 1];
  /** The gradient of the output with the axes that vectors removed. */
  const gradient = (): Operand => {
    const { length } = output;
    if (isRow && isColumn) return { name: b.reshape(b.dy, [1, 1]), dims: [1, 1] };
    if (isRow)
      return { name: b.unsqueeze(b.dy, [length - 1]), dims: [...output.slice(0, -1), 1, output.at(-1)!] };
    if (isColumn) return { name: b.unsqueeze(b.dy, [length]), dims: [...output, 1] };
    return { name: b.dy, dims: output };
  };
  const fitOperand = (product: string, dims: readonly Dim[], to: Value): string =>
    b.rank(to) === 1
      ? b.reshapeLike(b.sum(product, axesFrom(0, dims.length - 2), false), to)
      : b.fit(product, dims, to);
  return [
    () => {
      const [dy, other] = [gradient(), c()];
      const product = b.matmul(dy.name, swapped(b, other.name, other.dims.length));
      return fitOperand(product, [...dy.dims.slice(0, -1), other.dims.at(-2)!], left);
    },
    () => {
      const [dy, other] = [gradient(), a()];
      if (c().dims.length === 2 && other.dims.length > 2) return b.reshapeLike(overRows(b, other, dy), right);
      const product = b.matmul(swapped(b, other.name, other.dims.length), dy.name);
      return fitOperand(product, [...dy.dims.slice(0, -2), other.dims.at(-1)!, dy.dims.at(-1)!], right);
    },
  ];
};

/** Aᵀ·dY with all rows of all samples in one product. */
function overRows(b: Backward, a: Operand, dy: Operand): string {
  const rows = ({ name, dims }: Operand): string => {
    const columns = dims.at(-1)!;
    if (typeof columns === 'number') return b.reshape(name, [-1, columns]);
    const last = b.slice(b.sizes(name), [0], [-1], [TO_THE_END]);
    return b.reshape(name, b.concat([b.ints([-1]), last], 0));
  };
  return b.nodes.add('Gemm', gemmInputs(b, rows(a), rows(dy)), { transA: 1 });
}

/** Since this operator set, Gemm needs no third input. */
const GEMM_TWO_INPUTS = 11;

function gemmInputs(b: Backward, left: string, right: string): string[] {
  return b.opset >= GEMM_TWO_INPUTS ? [left, right] : [left, right, b.term(0)];
}

/** Y = α·A'·B' + β·C, where A' and B' may be transposed. */
const gemm: Rule = (b) => {
  const [transA, transB] = [b.int('transA', 0), b.int('transB', 0)];
  const [alpha, beta] = [b.float('alpha', 1), b.float('beta', 1)];
  const product = (left: string, right: string, turnLeft: number, turnRight: number): string =>
    b.nodes.add('Gemm', gemmInputs(b, left, right), {
      ...(alpha === 1 ? {} : { alpha: { float: alpha } }),
      ...(turnLeft ? { transA: 1 } : {}),
      ...(turnRight ? { transB: 1 } : {}),
    });
  const [a, c] = [b.input(0), b.input(1)];
  return [
    () => (transA ? product(c, b.dy, transB, 1) : product(b.dy, c, 0, 1 - transB)),
    () => (transB ? product(b.dy, a, 1, transA) : product(a, b.dy, 1 - transA, 0)),
    () => {
      const summed = b.fit(b.dy, b.dims(b.output(0)), b.value(2));
      return beta === 1 ? summed : b.mul(summed, beta);
    },
  ];
};

/** Reads `ij,jk->ik`; without an arrow, the result has the labels that occur once, in alphabetical order. */
function readEquation(b: Backward): { operands: string[]; result: string } {
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

/** An Einsum of the gradient with all other operands. */
const einsum: Rule = (b) => {
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

export const products: Rules = { MatMul: matMul, Gemm: gemm, Einsum: einsum };
