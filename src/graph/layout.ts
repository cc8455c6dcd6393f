/** Which axis of a tensor holds the channels, proven by the operators that made it. */
import type { Graph, Node, Value } from './graph.js';
import { nodeRoles } from './roles.js';

/** How the axes of a tensor are meant: N batch, C channels, H and W a map, L tokens. */
export type Layout = 'NCHW' | 'NHWC' | 'NLC' | 'NCL' | 'NC';

/** Operators whose results are `[N, C, …]` by definition. */
const CHANNELS_SECOND = new Set([
  'Conv',
  'ConvTranspose',
  'ConvInteger',
  'QLinearConv',
  'MaxPool',
  'AveragePool',
  'GlobalAveragePool',
  'GlobalMaxPool',
  'BatchNormalization',
  'InstanceNormalization',
  'GroupNormalization',
  'LRN',
  'Resize',
  'Upsample',
  'DepthToSpace',
  'SpaceToDepth',
]);
/** Products of a tensor with a weight: linear layers, whose results have channels last. */
const PRODUCTS = new Set(['MatMul', 'Gemm', 'MatMulInteger', 'FusedMatMul']);
/** Operators that keep rank and meaning of the axes of what they read. */
const SAME_AXES = new Set([
  'Relu',
  'LeakyRelu',
  'PRelu',
  'Elu',
  'Gelu',
  'FastGelu',
  'QuickGelu',
  'BiasGelu',
  'Sigmoid',
  'HardSigmoid',
  'HardSwish',
  'Tanh',
  'Erf',
  'Softplus',
  'Softmax',
  'Clip',
  'Add',
  'Sub',
  'Mul',
  'Div',
  'Pow',
  'Sqrt',
  'Concat',
  'Identity',
  'Dropout',
  'Cast',
  'Pad',
  'Slice',
  'Where',
  'QuantizeLinear',
  'DequantizeLinear',
  'Split',
]);
/** Operators that keep the axes if what they read has as many. */
const REDUCTIONS = new Set(['ReduceMean', 'ReduceMax', 'ReduceSum']);
/** Residual networks have two ways back per block; they end at the next convolution or linear layer. */
const MAX_NODES = 512;

/**
 * The axis of the channels, found by walking back to the operators that fix it.
 *
 * @param rank - Rank of the value.
 * @returns undefined where no operator fixes it, or several disagree.
 */
export function channelAxis(graph: Graph, value: Value, rank: number): number | undefined {
  const roles = nodeRoles(graph);
  const isData = (read: Value | undefined): boolean =>
    read?.producer !== undefined && roles.get(read.producer) === 'data';
  const found = new Set<number>();
  const seen = new Set<Node>();
  // With each node, where the axes of the value stood in what the node gives.
  const stack: { readonly node: Node; readonly axes: readonly number[] }[] = [];
  const push = (read: Value | undefined, axes: readonly number[]): void => {
    if (!isData(read) || (rankOf(read) ?? rank) !== rank) return;
    const { producer } = read!;
    if (seen.has(producer!) || seen.size > MAX_NODES) return;
    seen.add(producer!);
    stack.push({ node: producer!, axes });
  };
  push(
    value,
    Array.from({ length: rank }, (_, axis) => axis),
  );
  for (let top = stack.pop(); top; top = stack.pop()) {
    const { node, axes } = top;
    const { perm } = node.scanned;
    const isLinear = PRODUCTS.has(node.opType) && !isData(node.inputs[1]) && isFedByWeight(node);
    if (CHANNELS_SECOND.has(node.opType)) found.add(axes.indexOf(1));
    else if (isLinear || normalizesLast(node)) found.add(axes.indexOf(rank - 1));
    else if (node.opType === 'Transpose' && perm?.length === rank)
      push(
        node.inputs[0],
        axes.map((axis) => perm[axis]!),
      );
    else if (REDUCTIONS.has(node.opType) && rankOf(node.inputs[0]) === rank) push(node.inputs[0], axes);
    else if (SAME_AXES.has(node.opType)) for (const read of node.inputs) push(read, axes);
  }
  const [axis] = found;
  return found.size === 1 && axis! >= 0 ? axis : undefined;
}

/** Layer normalisation over one axis, the last: its scale has one as well. */
function normalizesLast({ opType, inputs }: Node): boolean {
  return opType === 'LayerNormalization' && (inputs[1]?.initializer?.dims.length ?? 1) === 1;
}

function rankOf(value: Value | undefined): number | undefined {
  return value?.type?.kind === 'tensor' ? value.type.dims?.length : undefined;
}

/** A product of two tensors that both depend on an input (attention scores) is no linear layer. */
function isFedByWeight(node: Node): boolean {
  const weight = node.inputs[1];
  return weight !== undefined && (weight.producer !== undefined || weight.initializer !== undefined);
}
