/** How operators pass the batch from their inputs to their outputs, and which changes let them take any batch. */
import type { Node, Value } from '../graph.js';
import type { Operator } from '../operators/operator.js';
import { operatorOf } from '../operators/operators.js';
import { flattenAxis, moveAxis, type BatchAxis } from './batch-axis.js';
import { einsum, gemm, matMul } from './batch-products.js';
import { expand, fill, reshape, resize, slice } from './batch-reshapes.js';
import { trackCount, trackShape } from './batch-sizes.js';
import { refuse, type BatchWalk } from './batch-walk.js';

/** Handles a node with at least one input that depends on the batch. */
export type BatchRule = (walk: BatchWalk, node: Node) => void;

/** Since this operator set, Softmax works along one axis; before, it flattened all axes from that one on. */
const SOFTMAX_ONE_AXIS = 13;

/** Operators that keep the axis and its size: those on single elements, and unknown ones. */
const keepAxis: BatchRule = (walk, node) => {
  const [position] = walk.batchedInputs(node) as [number];
  const input = node.inputs[position]!;
  const at = walk.axisOf(input)!;
  const dims = walk.dimsOf(node, input);
  for (const output of node.outputs) {
    const rank = output && walk.facts.dimsOf(output)?.length;
    if (rank === dims.length) walk.setAxis(node, output, at);
    else if (walk.isUsed(output)) refuse(node, `gives "${output.name}", in which the batch was not found`);
  }
};

const broadcast: BatchRule = (walk, node) => {
  const { fromRight, split } = walk.alignBroadcast(node, [...node.inputs.keys()]);
  for (const output of node.outputs)
    if (walk.isUsed(output)) {
      const rank = walk.dimsOf(node, output).length;
      walk.setAxis(node, output, moveAxis(split, rank - fromRight));
    }
};

/** Convolution, pooling and similar operators, whose samples are along the first axis. */
const firstAxis: BatchRule = (walk, node) => {
  const at = walk.axisOf(node.inputs[0]);
  if (at?.axis !== 0) refuse(node, 'has the batch on another axis than the first');
  if (walk.batchedInputs(node).length > 1) refuse(node, 'has weights that depend on the batch');
  keepAxis(walk, node);
};

/** An operator that works along certain axes. The batch must not be one of them. */
const along =
  (axes: (walk: BatchWalk, node: Node, rank: number) => readonly number[]): BatchRule =>
  (walk, node) => {
    const [data] = node.inputs;
    const at = walk.axisOf(data);
    if (!at) refuse(node, 'has an operand that depends on the batch');
    const rank = walk.dimsOf(node, data).length;
    if (axes(walk, node, rank).some((axis) => wrap(axis, rank) === at.axis)) refuse(node, MIXES);
    keepAxis(walk, node);
  };

const MIXES = 'works across the batch';

function wrap(axis: number, rank: number): number {
  return axis < 0 ? axis + rank : axis;
}

const alongOne = (fallback: number): BatchRule => along((walk, node) => [walk.int(node, 'axis') ?? fallback]);

/** The given axis and all axes after it. */
const alongRest = (fallback: number): BatchRule =>
  along((walk, node, rank) => {
    const first = wrap(walk.int(node, 'axis') ?? fallback, rank);
    return Array.from({ length: rank - first }, (_, i) => first + i);
  });

const softmax: BatchRule = (walk, node) =>
  (walk.opset < SOFTMAX_ONE_AXIS ? alongRest(1) : alongOne(-1))(walk, node);

function axesOf(walk: BatchWalk, node: Node): readonly number[] | undefined {
  const axes = walk.ints(node, 'axes') ?? walk.integers(node, 1);
  if (!axes && node.inputs[1]) refuse(node, 'computes its axes in the graph');
  return axes && axes.length > 0 ? axes : undefined;
}

const reduce: BatchRule = (walk, node) => {
  const [data] = node.inputs;
  const rank = walk.dimsOf(node, data).length;
  const given = node.opType.startsWith('Arg') ? [walk.int(node, 'axis') ?? 0] : axesOf(walk, node);
  if (!given && walk.int(node, 'noop_with_empty_axes') === 1) return keepAxis(walk, node);
  const at = walk.axisOf(data)!;
  const axes = given?.map((axis) => wrap(axis, rank));
  if (!axes || axes.includes(at.axis)) refuse(node, MIXES);
  const removed = walk.int(node, 'keepdims') === 0 ? axes.filter((axis) => axis < at.axis).length : 0;
  walk.setAxis(node, node.outputs[0], moveAxis(at, at.axis - removed));
};

const flatten: BatchRule = (walk, node) => {
  const [data] = node.inputs;
  const dims = walk.dimsOf(node, data);
  const split = wrap(walk.int(node, 'axis') ?? 1, dims.length);
  walk.setAxis(node, node.outputs[0], flattenAxis(walk.axisOf(data)!, dims, split));
};

const squeeze: BatchRule = (walk, node) => {
  const [data] = node.inputs;
  const at = walk.axisOf(data)!;
  const dims = walk.dimsOf(node, data);
  const axes =
    axesOf(walk, node)?.map((axis) => wrap(axis, dims.length)) ??
    dims.flatMap((size, axis) => (size === 1 || (axis === at.axis && size === walk.batch) ? [axis] : []));
  if (axes.includes(at.axis)) refuse(node, 'removes the axis of the batch');
  walk.setAxis(node, node.outputs[0], moveAxis(at, at.axis - axes.filter((axis) => axis < at.axis).length));
};

const unsqueeze: BatchRule = (walk, node) => {
  const at = walk.axisOf(node.inputs[0])!;
  const { length } = walk.dimsOf(node, node.outputs[0]);
  const added = new Set((axesOf(walk, node) ?? []).map((axis) => wrap(axis, length)));
  const kept = Array.from({ length }, (_, axis) => axis).filter((axis) => !added.has(axis));
  walk.setAxis(node, node.outputs[0], moveAxis(at, kept[at.axis]!));
};

const transpose: BatchRule = (walk, node) => {
  const at = walk.axisOf(node.inputs[0])!;
  const { length } = walk.dimsOf(node, node.inputs[0]);
  const axis = node.scanned.perm?.indexOf(at.axis) ?? length - 1 - at.axis;
  walk.setAxis(node, node.outputs[0], moveAxis(at, axis));
};

/** Operators that join operands without broadcasting, so every operand must have the batch. */
const joined =
  (axisAttribute: string): BatchRule =>
  (walk, node) => {
    const [position] = walk.batchedInputs(node) as [number];
    const at = walk.axisOf(node.inputs[position])!;
    const rank = walk.dimsOf(node, node.inputs[position]).length;
    if (wrap(walk.int(node, axisAttribute) ?? 0, rank) === at.axis) refuse(node, MIXES);
    walk.alignExactly(node, [...node.inputs.keys()], at);
    walk.setAxis(node, node.outputs[0], at);
  };

const gather: BatchRule = (walk, node) => {
  const [data, indices] = node.inputs;
  const inData = walk.axisOf(data);
  const inIndices = walk.axisOf(indices);
  const axis = wrap(walk.int(node, 'axis') ?? 0, walk.dimsOf(node, data).length);
  const added = walk.dimsOf(node, indices).length - 1;
  if (inData?.axis === 0 && axis === 0 && !inIndices && offsetIndices(walk, node, inData)) return;
  if ((inData && inIndices) || inData?.axis === axis) refuse(node, MIXES);
  const at = inData
    ? moveAxis(inData, inData.axis < axis ? inData.axis : inData.axis + added)
    : moveAxis(inIndices!, inIndices!.axis + axis);
  walk.setAxis(node, node.outputs[0], at);
};

/**
 * Takes elements of all samples from one list of all their elements, which is how PyTorch's exporter writes as_strided. The indices of
 * each sample are those of the first one, shifted.
 */
function offsetIndices(walk: BatchWalk, node: Node, at: BatchAxis): boolean {
  const [, indices] = node.inputs;
  const dims = walk.dimsOf(node, indices);
  const list = walk.integers(node, 1);
  if (!list || at.outer !== 1 || dims[0] !== walk.batch) return false;
  const first = list.slice(0, list.length / walk.batch);
  const isRegular = list.every(
    (index, i) => index >= 0 && index === first[i % first.length]! + Math.floor(i / first.length) * at.inner,
  );
  if (!isRegular || !first.every((index) => index < at.inner)) return false;
  walk.edits.setOffsets(node, 1, { first, dims: [1, ...dims.slice(1)], step: at.inner });
  walk.note(node, 'its indices are computed for each sample');
  walk.setAxis(node, node.outputs[0], { axis: 0, outer: 1, inner: 1 });
  return true;
}

const gatherNd: BatchRule = (walk, node) => {
  const [data, indices] = node.inputs;
  const at = walk.axisOf(data);
  const shape = walk.dimsOf(node, indices);
  const shared = walk.int(node, 'batch_dims') ?? 0;
  const depth = shape.at(-1)!;
  if (at && at.axis < shared) {
    walk.alignExactly(node, [0, 1], at);
    return walk.setAxis(node, node.outputs[0], at);
  }
  if (!at || walk.axisOf(indices) || at.axis < shared + depth) refuse(node, MIXES);
  walk.setAxis(node, node.outputs[0], moveAxis(at, at.axis - depth + shape.length - 1 - shared));
};

const scatterNd: BatchRule = (walk, node) => {
  const [data, indices, updates] = node.inputs;
  const at = walk.axisOf(data);
  const isInside = at && !walk.axisOf(indices) && at.axis >= walk.dimsOf(node, indices).at(-1)!;
  if (!isInside || !walk.axisOf(updates)) refuse(node, 'writes at positions that were made for one batch');
  walk.setAxis(node, node.outputs[0], at);
};

const oneHot: BatchRule = (walk, node) => {
  const at = walk.axisOf(node.inputs[0])!;
  const rank = walk.dimsOf(node, node.outputs[0]).length;
  const axis = wrap(walk.int(node, 'axis') ?? -1, rank);
  walk.setAxis(node, node.outputs[0], moveAxis(at, at.axis < axis ? at.axis : at.axis + 1));
};

const tile: BatchRule = (walk, node) => {
  const at = walk.axisOf(node.inputs[0]);
  const output = node.outputs[0];
  if (!at || walk.dimsOf(node, output)[at.axis] !== walk.dimsOf(node, node.inputs[0])[at.axis])
    refuse(node, 'repeats the batch');
  walk.setAxis(node, output, at);
};

const recurrent: BatchRule = (walk, node) => {
  const isBatchFirst = walk.int(node, 'layout') === 1;
  const at = walk.axisOf(node.inputs[0]);
  if (at?.axis !== (isBatchFirst ? 0 : 1)) refuse(node, 'has the batch on another axis of its input');
  // First sequence_lens, then the initial states.
  walk.alignExactly(node, [4], moveAxis(at, 0));
  walk.alignExactly(node, [5, 6], moveAxis(at, isBatchFirst ? 0 : 1));
  const [all, ...last] = node.outputs;
  walk.setAxis(node, all, moveAxis(at, isBatchFirst ? 0 : 2));
  for (const state of last) walk.setAxis(node, state, moveAxis(at, isBatchFirst ? 0 : 1));
};

/** CastLike reads only the type of its second operand. */
const castLike: BatchRule = (walk, node) => {
  if (walk.axisOf(node.inputs[0])) keepAxis(walk, node);
};

const never: BatchRule = (_, node) =>
  refuse(node, 'mixes samples, or gives a number of elements that depends on them');

/** Channels are along the second axis, so the batch must be along another one. */
const batchNorm = along((_, __, rank) => (rank > 1 ? [1] : []));

/** One scale per tensor, or one per element of an axis. */
const quantize: BatchRule = (walk, node) => {
  const isPerAxis = walk.dimsOf(node, node.inputs[1]).some((size) => size > 1);
  (isPerAxis ? alongOne(1) : keepAxis)(walk, node);
};

const alongInput: BatchRule = along((walk, node) => walk.integers(node, 1) ?? []);

/** Its axis is an input since operator set 20. */
const fourier: BatchRule = along((walk, node) =>
  walk.opset < 20 ? [walk.int(node, 'axis') ?? 1] : (walk.integers(node, 2) ?? [-2]),
);

const meanVariance: BatchRule = along((walk, node) => walk.ints(node, 'axes') ?? [0, 2, 3]);

/** Rules of several operators. */
const RULES: Readonly<Record<Exclude<Operator['batch'], 'own'>, BatchRule>> = {
  kept: keepAxis,
  broadcast,
  'first axis': firstAxis,
  reduction: reduce,
  'last axes': alongRest(-1),
  mixed: never,
};

/** Rules of single operators. */
export const BATCH_RULES: Readonly<Record<string, BatchRule>> = {
  BatchNormalization: batchNorm,
  CastLike: castLike,
  Concat: joined('axis'),
  CumProd: alongInput,
  CumSum: alongInput,
  DequantizeLinear: quantize,
  DFT: fourier,
  Einsum: einsum,
  Expand: expand,
  Flatten: flatten,
  GRU: recurrent,
  Gather: gather,
  GatherElements: joined('axis'),
  GatherND: gatherNd,
  Gemm: gemm,
  Hardmax: softmax,
  LSTM: recurrent,
  LogSoftmax: softmax,
  LpNormalization: alongOne(-1),
  MatMul: matMul(0, 1),
  MatMulInteger: matMul(0, 1),
  MeanVarianceNormalization: meanVariance,
  OneHot: oneHot,
  QLinearMatMul: matMul(0, 3),
  QuantizeLinear: quantize,
  RNN: recurrent,
  Reshape: reshape,
  Resize: resize,
  Scatter: joined('axis'),
  ScatterElements: joined('axis'),
  ScatterND: scatterNd,
  Shape: trackShape,
  Size: trackCount,
  Slice: slice,
  Softmax: softmax,
  Split: alongOne(0),
  Squeeze: squeeze,
  Tile: tile,
  TopK: alongOne(-1),
  Transpose: transpose,
  Trilu: along(() => [-2, -1]),
  Unsqueeze: unsqueeze,
};

/** Follows the batch through a node. */
export function carryBatch(walk: BatchWalk, node: Node): void {
  if (!node.reads.some((value: Value) => walk.axisOf(value))) {
    if (node.domain === '') fill(walk, node);
    return;
  }
  if (node.scanned.bodies) refuse(node, 'reads the batch inside a body');
  const kind = operatorOf(node)?.batch ?? 'kept';
  const rule = kind === 'own' ? BATCH_RULES[node.opType]! : RULES[kind];
  rule(walk, node);
}
