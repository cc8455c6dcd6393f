/** Whether an operator that keeps the axis of the rows works along it. */
import type { Node, Value } from '../graph.js';
import { operatorOf } from '../operators/operators.js';
import type { BatchWalk } from './batch-walk.js';

/** Where a node meets the rows. */
interface Meeting {
  readonly walk: BatchWalk;
  readonly node: Node;
  /** The axis of the rows in its first input, and the number of axes there. */
  readonly at: number;
  readonly rank: number;
  /** Whether a value follows from the content of an input. */
  readonly isData: (value: Value) => boolean;
}

type AlongRule = (meeting: Meeting) => boolean;

/** Since this operator set, Softmax works along one axis; before, it flattened all axes from that one on. */
const SOFTMAX_ONE_AXIS = 13;

const axisOf = ({ walk, node, rank }: Meeting, fallback: number): number => {
  const axis = walk.int(node, 'axis') ?? fallback;
  return axis < 0 ? axis + rank : axis;
};

const alongOne =
  (fallback: number): AlongRule =>
  (meeting) =>
    axisOf(meeting, fallback) === meeting.at;

/** The given axis and all axes after it. */
const alongRest =
  (fallback: number): AlongRule =>
  (meeting) =>
    meeting.at >= axisOf(meeting, fallback);

const softmax: AlongRule = (meeting) =>
  (meeting.walk.opset < SOFTMAX_ONE_AXIS ? alongRest(1) : alongOne(-1))(meeting);

const alongInput: AlongRule = ({ walk, node, at, rank }) =>
  walk.integers(node, 1)?.some((axis) => (axis < 0 ? axis + rank : axis) === at) === true;

/** Windows over more than one row. */
const windows: AlongRule = ({ walk, node, at }) => {
  const weight = node.inputs[1] && walk.facts.dimsOf(node.inputs[1])?.slice(2);
  const kernel = walk.ints(node, 'kernel_shape') ?? weight ?? [];
  return at >= 2 && (kernel[at - 2] ?? 1) > 1;
};

/** Normalised over all axes after the channels. */
const onMaps: AlongRule = ({ at }) => at >= 2;

/** A step other than 1 turns the rows round: a part of them would have another size. */
const slice: AlongRule = ({ walk, node, at, rank }) => {
  const steps = node.inputs[4] ? walk.integers(node, 4) : undefined;
  const axes = (node.inputs[3] ? walk.integers(node, 3) : undefined) ?? steps?.map((_, i) => i) ?? [];
  const index = axes.findIndex((axis) => (axis < 0 ? axis + rank : axis) === at);
  return index >= 0 && (steps?.[index] ?? 1) !== 1;
};

/** Elements are taken or written across rows, at places that follow from the content. */
const elements: AlongRule = (meeting) => {
  const indices = meeting.node.inputs[1];
  return alongOne(0)(meeting) && indices !== undefined && meeting.isData(indices);
};

/** The sequence is on the second axis of three, or on the third of four. */
const attention: AlongRule = ({ at, rank }) => (rank === 3 && at === 1) || (rank === 4 && at === 2);

const recurrent: AlongRule = ({ walk, node, at }) => at === (walk.int(node, 'layout') === 1 ? 1 : 0);

/** Without an axis, it takes all elements as one list. */
const list: AlongRule = (meeting) =>
  meeting.walk.int(meeting.node, 'axis') === undefined || alongOne(0)(meeting);

const always: AlongRule = () => true;

const RULES: Readonly<Record<string, AlongRule>> = {
  AveragePool: windows,
  BatchNormalization: ({ walk, node }) => walk.int(node, 'training_mode') === 1,
  Compress: list,
  Conv: windows,
  ConvTranspose: windows,
  CumProd: alongInput,
  CumSum: alongInput,
  // The ones lie where a row has the number of its column.
  EyeLike: always,
  GRU: recurrent,
  GatherElements: elements,
  GroupNormalization: onMaps,
  Hardmax: softmax,
  InstanceNormalization: onMaps,
  LRN: ({ at }) => at === 1,
  LSTM: recurrent,
  LogSoftmax: softmax,
  LpNormalization: alongOne(-1),
  LpPool: windows,
  MaxPool: windows,
  MeanVarianceNormalization: ({ walk, node, at }) => (walk.ints(node, 'axes') ?? [0, 2, 3]).includes(at),
  // Its results name rows by their numbers in the batch.
  NonMaxSuppression: always,
  RNN: recurrent,
  ReverseSequence: ({ walk, node, at }) => at === (walk.int(node, 'time_axis') ?? 0),
  Scatter: elements,
  ScatterElements: elements,
  SkipLayerNormalization: alongOne(-1),
  SkipSimplifiedLayerNormalization: alongOne(-1),
  Slice: slice,
  Softmax: softmax,
  TopK: alongOne(-1),
  Trilu: ({ at, rank }) => at >= rank - 2,
  Unique: list,
};

/** Whether a node works along the axis of the rows in its first input, as far as the file shows it. */
export function meetsAlong(walk: BatchWalk, node: Node, isData: Meeting['isData']): boolean {
  const [data] = node.inputs;
  const at = walk.axisOf(data)?.axis;
  if (!data || at === undefined) return false;
  const meeting = { walk, node, at, rank: walk.dimsOf(node, data).length, isData };
  const operator = operatorOf(node);
  if (operator?.isAttention) return attention(meeting);
  if (operator?.batch === 'last axes') return alongRest(-1)(meeting);
  return RULES[node.opType]?.(meeting) === true;
}
