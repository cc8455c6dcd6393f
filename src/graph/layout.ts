/** Which axis of a tensor holds the channels, read from the operators that made it. */
import type { Node, Value } from './graph.js';

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
/** Operators whose results have channels last. */
const CHANNELS_LAST = new Set(['MatMul', 'Gemm', 'LayerNormalization', 'MatMulInteger', 'FusedMatMul']);
/** Operators that keep the meaning of the axes; the tensor is the first input that is computed. */
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
const MAX_HOPS = 256;

/**
 * The axis of the channels, found by walking back to an operator that fixes it; undefined where none does.
 *
 * @param rank - Rank of the value.
 */
export function channelAxis(value: Value, rank: number): number | undefined {
  // Where each axis of the value stood in the tensor reached so far.
  let axes = Array.from({ length: rank }, (_, axis) => axis);
  let node: Node | undefined = value.producer;
  for (let hops = 0; node && hops < MAX_HOPS; hops++) {
    const { perm } = node.scanned;
    if (CHANNELS_SECOND.has(node.opType)) return found(axes.indexOf(1));
    if (CHANNELS_LAST.has(node.opType)) return found(axes.indexOf(rank - 1));
    if (node.opType === 'Transpose' && perm?.length === rank) axes = axes.map((axis) => perm[axis]!);
    else if (!SAME_AXES.has(node.opType)) return undefined;
    node = node.inputs.find((input) => input?.producer && input.producer.opType !== 'Constant')?.producer;
  }
  return undefined;
}

function found(axis: number): number | undefined {
  return axis < 0 ? undefined : axis;
}
