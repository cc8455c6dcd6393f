/** Multiply-accumulates of a node, by operator and the sizes of its tensors. */
import type { Attribute } from '../../file/scan/attributes.js';
import { operatorKey } from '../../file/scan/scan-body.js';
import type { Graph, Node, Value } from '../graph.js';
import { operatorOf } from '../operators/operators.js';

/** What the rules know about a graph besides its nodes. */
export interface CostFacts {
  /** The sizes of a tensor; undefined if they are unknown. */
  readonly dimsOf: (value: Value) => readonly number[] | undefined;
  readonly attributesOf: (node: Node) => ReadonlyMap<string, Attribute>;
}

/** A node with its sizes. A tensor whose sizes are unknown ends the rule. */
interface Sized {
  readonly node: Node;
  /** The sizes of an input. */
  readonly input: (slot: number) => readonly number[];
  /** The sizes of an optional input; undefined if the node does not have it. */
  readonly optional: (slot: number) => readonly number[] | undefined;
  /** The sizes of the first output. */
  readonly output: () => readonly number[];
  readonly attributes: () => ReadonlyMap<string, Attribute>;
}

type Rule = (node: Sized) => number;

/**
 * Counts the multiply-accumulates of a node, as fvcore and torchvision count them: those of matrix products, convolutions, attention and
 * recurrent layers. Additions, norms, activations, pooling and whatever moves data count zero.
 *
 * @returns undefined if there is no rule for the operator (control flow, functions, custom operators), or sizes are unknown.
 */
export function nodeMacs(graph: Graph, node: Node, facts: CostFacts): number | undefined {
  if (graph.functions.has(operatorKey(node))) return undefined;
  const operator = operatorOf(node);
  if (operator?.macs !== 'own') return operator?.macs === 'none' ? 0 : undefined;
  try {
    const macs = MAC_RULES[node.domain]![node.opType]!(measure(node, facts));
    // A hostile file has nodes with tensors of the wrong rank.
    return Number.isSafeInteger(macs) ? macs : undefined;
  } catch (error) {
    if (error instanceof UnknownSizes) return undefined;
    throw error;
  }
}

/** Ends a rule. */
class UnknownSizes extends Error {}

function measure(node: Node, { dimsOf, attributesOf }: CostFacts): Sized {
  const known = (value: Value | undefined): readonly number[] => {
    const dims = value && dimsOf(value);
    if (!dims) throw new UnknownSizes();
    return dims;
  };
  return {
    node,
    input: (slot) => known(node.inputs[slot]),
    optional: (slot) => node.inputs[slot] && known(node.inputs[slot]),
    output: () => known(node.outputs[0]),
    attributes: () => attributesOf(node),
  };
}

function size(dims: readonly number[]): number {
  return dims.reduce((product, dim) => product * dim, 1);
}

/** A convolution computes each element of its output from the weights of one filter: `[out, in / groups, …]`. */
function convolution(weight: number): Rule {
  return ({ input, output }) => size(output()) * size(input(weight).slice(1));
}

/** A transposed one spreads each element of its input over the weights `[in, out / groups, …]`. */
const transposed: Rule = ({ input }) => size(input(0)) * size(input(1).slice(1));

/** The last axis of the first factor is summed over. */
const product: Rule = ({ input, output }) => size(output()) * last(input(0), 1);

/** The same if the node may transpose its second factor. */
const gemm: Rule = ({ node, input, output }) =>
  size(output()) * last(input(1), node.scanned.layout.get('transB') ? 1 : 2);

const fusedProduct: Rule = ({ input, output, attributes }) => {
  const isOn = (name: string): boolean => (attributes().get(name)?.int ?? 0) !== 0;
  // [K, …, M] or [M, …, K] instead of […, M, K].
  if (isOn('transBatchA')) return size(output()) * (isOn('transA') ? input(0)[0]! : last(input(0), 1));
  return size(output()) * last(input(0), isOn('transA') ? 2 : 1);
};

const quantizedGemm: Rule = ({ input, output, attributes }) =>
  size(output()) * last(input(0), attributes().get('transA')?.int ? 2 : 1);

/** The size of an axis, counted from the end; of a vector, its only one. */
function last(dims: readonly number[], fromEnd: number): number {
  const found = dims.length === 1 ? dims[0] : dims.at(-fromEnd);
  if (found === undefined) throw new UnknownSizes();
  return found;
}

/** Scores and weighted sums: every element of queries and results meets every key. Masks save nothing here. */
function attention(queries: number, results: readonly number[], keys: number): number {
  return keys * (queries + size(results));
}

/** Attention of ONNX: heads are an axis or not. */
const standardAttention: Rule = ({ input, optional, output }) =>
  attention(size(input(0)), output(), last(input(1), 2) + (optional(4)?.at(-2) ?? 0));

/** MultiHeadAttention: queries, keys and values apart, or packed as `[N, L, heads, 3 or 2, size]`. */
const multiHeadAttention: Rule = ({ input, optional, output }) => {
  const queries = input(0);
  const keys = optional(1) ?? queries;
  const length = keys.length === 5 ? keys[1]! : last(keys, 2);
  const past = optional(6)?.at(-2) ?? 0;
  return attention(size(queries) / (queries.length === 5 ? 3 : 1), output(), length + past);
};

/** Attention of ONNX Runtime: it also projects `[N, L, C]` by `[C, queries + keys + values]`; `past` is `[2, N, heads, L, size]`. */
function projectingAttention(past: number): Rule {
  return ({ input, optional, output }) => {
    const [rows, length, channels] = input(0);
    const width = last(input(1), 1);
    const tokens = rows! * length!;
    const queries = (width - last(output(), 1)) / 2;
    const keys = length! + (optional(past)?.[3] ?? 0);
    return tokens * channels! * width + attention(tokens * queries, output(), keys);
  };
}

/** LSTM, GRU and RNN: each step of each row meets all weights of the input and of the state. */
const recurrent: Rule = ({ input }) => size(input(0).slice(0, 2)) * (size(input(1)) + size(input(2)));

/** A product of two tensors: every combination of all indices. One tensor alone is only summed or turned. */
const einsum: Rule = ({ node, input, attributes }) => {
  if (node.inputs.length === 1) return 0;
  const terms = attributes().get('equation')?.text?.replaceAll(' ', '').split('->')[0]!.split(',') ?? [];
  if (node.inputs.length > 2 || terms.length !== 2) throw new UnknownSizes();
  const sizes = new Map<string, number>();
  for (const [slot, term] of terms.entries()) {
    const dims = input(slot);
    const [front = '', back = ''] = term.split('...');
    const rest = dims.length - front.length - back.length;
    // The axes of an ellipsis count from its end, and broadcast.
    const labels = [
      ...front.split(''),
      ...Array.from({ length: rest }, (_, i) => `.${rest - i}`),
      ...back.split(''),
    ];
    labels.forEach((label, axis) => sizes.set(label, Math.max(sizes.get(label) ?? 1, dims[axis]!)));
  }
  return size([...sizes.values()]);
};

/** By domain and operator. */
export const MAC_RULES: Readonly<Record<string, Readonly<Record<string, Rule>>>> = {
  '': {
    Attention: standardAttention,
    Conv: convolution(1),
    ConvInteger: convolution(1),
    ConvTranspose: transposed,
    DeformConv: convolution(1),
    Einsum: einsum,
    Gemm: gemm,
    GRU: recurrent,
    LSTM: recurrent,
    MatMul: product,
    MatMulInteger: product,
    QLinearConv: convolution(3),
    QLinearMatMul: product,
    RNN: recurrent,
  },
  'com.microsoft': {
    Attention: projectingAttention(4),
    DynamicQuantizeMatMul: product,
    FusedConv: convolution(1),
    FusedGemm: gemm,
    FusedMatMul: fusedProduct,
    MatMulIntegerToFloat: product,
    MatMulNBits: product,
    MultiHeadAttention: multiHeadAttention,
    QAttention: projectingAttention(8),
    QGemm: quantizedGemm,
    QLinearConv: convolution(3),
  },
};
