/** Follows the places of a photo through a graph at one size of it, so that a map shows each token where it belongs, whatever moved it. */
import { tensorType, type Graph, type Node, type Value } from './graph.js';
import { imageInput } from './image-axes.js';
import { KnownSizes } from './known-sizes.js';
import { operatorOf } from './operators/operators.js';
import {
  findTokenPlaces,
  isAligned,
  isInOrder,
  joinPlaces,
  movePlaces,
  placeMap,
  poolPlaces,
  reshapePlaces,
  type Placed,
  type TokenPlaces,
} from './places.js';
import type { Constants } from './read-constants.js';
import { nodeRoles } from './roles.js';

/** A step may move places, and cannot be read. */
const UNREADABLE = 'unreadable';

type Found = Placed | typeof UNREADABLE;

interface Walk {
  readonly constants: Constants;
  readonly sizes: KnownSizes;
  readonly found: Map<Value, Found>;
  readonly isData: (value: Value) => boolean;
  readonly dimsOf: (value: Value | undefined) => readonly number[] | undefined;
}

/** Undefined where places end, as at attention: what is added to it has them still. */
type Rule = (walk: Walk, node: Node, placed: Placed) => Found | undefined;

/**
 * Finds the patches of a value's tokens; null if the graph does not tell, and nothing in front of the value moves patches; `moved` if
 * something may.
 */
export type FindPlaces = (value: Value) => TokenPlaces | 'moved' | null;

/** Walks the graph once, in execution order, for a photo of this size. */
export function followPlaces(
  graph: Graph,
  constants: Constants,
  [height, width]: readonly [height: number, width: number],
): FindPlaces {
  const walk = startWalk(graph, constants);
  const image = imageInput(graph);
  if (!image) return () => null;
  const [batch, ...others] = tensorType(image.value)!.dims!;
  const channels = others[image.axis === 1 ? 2 : 0];
  const [rows, channel] = [
    typeof batch === 'number' ? batch : 1,
    typeof channels === 'number' ? channels : 3,
  ];
  if (rows * height * width > MOST_PLACES) return () => null;
  const isFirst = image.axis === 2;
  const dims = isFirst ? [rows, channel, height, width] : [rows, height, width, channel];
  walk.found.set(image.value, placeMap(dims, isFirst ? 1 : 3));
  for (const node of graph.nodes) {
    walk.sizes.read(node);
    const [output] = node.outputs;
    const result = output && follow(walk, node);
    if (!result) continue;
    walk.found.set(output, result);
    // The sum that a fused residual connection gives as well.
    if (SUMMING.has(node.opType) && node.outputs[3]) walk.found.set(node.outputs[3], result);
  }
  return (value) => readPlaces(walk.found, value);
}

/** Larger maps are not followed. */
const MOST_PLACES = 2 ** 22;

function startWalk(graph: Graph, constants: Constants): Walk {
  const roles = nodeRoles(graph);
  const found = new Map<Value, Found>();
  const dimsOf = (value: Value | undefined): readonly number[] | undefined => {
    if (!value) return undefined;
    const placed = found.get(value);
    if (placed && placed !== UNREADABLE) return placed.dims;
    const dims = value.initializer?.dims ?? tensorType(value)?.dims;
    return dims?.every((size) => typeof size === 'number') ? dims : undefined;
  };
  const isData = ({ producer, initializer }: Value): boolean =>
    producer ? roles.get(producer) === 'data' : !initializer;
  return { constants, found, dimsOf, isData, sizes: new KnownSizes(constants, dimsOf) };
}

function readPlaces(found: ReadonlyMap<Value, Found>, value: Value): TokenPlaces | 'moved' | null {
  const placed = found.get(value);
  if (placed && placed !== UNREADABLE) return findTokenPlaces(placed) ?? 'moved';
  const before = new Set([value]);
  for (const one of before) {
    const at = found.get(one);
    if (at && (at === UNREADABLE || !isInOrder(at))) return 'moved';
    for (const read of one.producer?.inputs ?? []) if (read) before.add(read);
  }
  return null;
}

function follow(walk: Walk, node: Node): Found | undefined {
  const operands = node.inputs.flatMap((value) => (value && walk.found.get(value)) ?? []);
  const placed = operands.filter((one) => one !== UNREADABLE);
  // What a sum is added to may have places of its own.
  const [widest] = placed.toSorted((a, b) => b.rows.length - a.rows.length);
  if (!widest) return operands.length > 0 && isPointwise(node) ? UNREADABLE : undefined;
  const rule = RULES[node.opType];
  if (rule) return walk.found.get(node.inputs[0]!) === UNREADABLE ? undefined : rule(walk, node, widest);
  const isMixed = placed.some((one) => one.rows.length === widest.rows.length && !isAligned(one, widest));
  return isMixed ? UNREADABLE : keep(walk, node, widest);
}

/** Norms of a sum, which optimisers make of residual connections. */
const SUMMING: ReadonlySet<string> = new Set(['SkipLayerNormalization', 'SkipSimplifiedLayerNormalization']);

function isPointwise(node: Node): boolean {
  const sizes = operatorOf(node)?.sizes;
  return sizes === 'elementwise' || sizes === 'broadcast' || sizes === 'same' || SUMMING.has(node.opType);
}

/** Operators whose results stay at the places of their inputs. Others that compute end them; what copies elements may move them. */
const keep: Rule = (walk, node, placed) => {
  const operator = operatorOf(node);
  if (isPointwise(node)) return placed;
  if (!operator || operator.half === 'moves') return operator?.readsOnlySizes ? undefined : UNREADABLE;
  const [data, weight] = node.inputs;
  if (operator.axes !== 'product' || !weight || walk.isData(weight)) return undefined;
  // A product over another axis mixes places.
  if (walk.found.get(data!) !== placed || placed.channel !== placed.dims.length - 1) return undefined;
  const sizes = weightDims(walk, weight);
  const isTurned = walk.constants.attributesOf(node).get('transB')?.int === 1;
  return { ...placed, dims: placed.dims.with(placed.channel, sizes?.at(isTurned ? -2 : -1) ?? NaN) };
};

/** The dims of a weight, also behind a Transpose or a DequantizeLinear. */
function weightDims(walk: Walk, weight: Value): readonly number[] | undefined {
  const known = walk.dimsOf(weight);
  const { producer } = weight;
  if (known || !producer?.inputs[0]) return known;
  const dims = weightDims(walk, producer.inputs[0]);
  return producer.opType === 'Transpose'
    ? (producer.scanned.perm?.map((axis) => dims?.[axis] ?? NaN) ?? dims)
    : dims;
}

/** A map, if its sizes are possible. */
function mapOf(dims: readonly number[], channel: number): Found {
  const places = dims.reduce((all, size, axis) => (axis === channel ? all : all * size), 1);
  return places > 0 && places <= MOST_PLACES ? placeMap(dims, channel) : UNREADABLE;
}

/** Windows over a map: the result is a map. */
const slide: Rule = (walk, node, placed) => {
  const attributes = walk.constants.attributesOf(node);
  const weight = node.opType.startsWith('Conv') ? weightDims(walk, node.inputs[1]!) : undefined;
  const given = attributes.get('kernel_shape')?.ints;
  const kernel = given?.length ? given : (weight?.slice(2) ?? []);
  const list = (name: string, at: number, otherwise: number): number =>
    attributes.get(name)?.ints[at] ?? otherwise;
  const channels = weight?.[0] ?? placed.dims[1]!;
  const isPlain = kernel.every((size, i) => size === 1 && list('strides', i, 1) === 1);
  if (placed.channel === 1 && isPlain) return { ...placed, dims: placed.dims.with(1, channels) };
  if (placed.channel !== 1 || placed.dims.length !== 4 || kernel.length !== 2) return undefined;
  if (!isAligned(placed, placeMap(placed.dims, 1))) return UNREADABLE;
  const mode = attributes.get('auto_pad')?.text ?? 'NOTSET';
  const sides = kernel.map((size, i) => {
    const [before, stride] = [placed.dims[i + 2]!, list('strides', i, 1)];
    if (mode.startsWith('SAME')) return Math.ceil(before / stride);
    const pads = mode === 'VALID' ? 0 : list('pads', i, 0) + list('pads', i + 2, 0);
    const room = (before + pads - list('dilations', i, 1) * (size - 1) - 1) / stride;
    return (attributes.get('ceil_mode')?.int === 1 ? Math.ceil(room) : Math.floor(room)) + 1;
  });
  return mapOf([placed.dims[0]!, channels, ...sides], 1);
};

const reshape: Rule = (walk, node, placed) => {
  const asked = reshapedDims(walk, node, placed.dims);
  if (!asked) return UNREADABLE;
  const open = asked.indexOf(-1);
  const size = (dims: readonly number[]): number => dims.reduce((all, one) => all * one, 1);
  const dims = open < 0 ? asked : asked.with(open, size(placed.dims) / -size(asked));
  return dims.some(Number.isNaN) ? UNREADABLE : reshapePlaces(placed, dims);
};

/** What a node that only changes dims asks for; -1 for what follows. */
function reshapedDims(walk: Walk, node: Node, dims: readonly number[]): readonly number[] | undefined {
  const attributes = walk.constants.attributesOf(node);
  const axes = walk.sizes.listOf(node.inputs[1]) ?? attributes.get('axes')?.ints;
  if (node.opType === 'Reshape')
    return walk.sizes
      .listOf(node.inputs[1])
      ?.map((size, i) => (size === 0 && attributes.get('allowzero')?.int !== 1 ? dims[i]! : size));
  if (node.opType === 'Flatten') {
    const axis = attributes.get('axis')?.int ?? 1;
    return [dims.slice(0, axis).reduce((all, size) => all * size, 1), -1];
  }
  if (node.opType === 'Squeeze') {
    const gone = axes?.map((axis) => (axis < 0 ? axis + dims.length : axis));
    return dims.filter((size, axis) => (gone ? !gone.includes(axis) : size !== 1));
  }
  const rank = dims.length + (axes?.length ?? 0);
  const added = axes?.map((axis) => (axis < 0 ? axis + rank : axis)).toSorted((a, b) => a - b);
  return added?.reduce<readonly number[]>((all, axis) => all.toSpliced(axis, 0, 1), dims);
}

const transpose: Rule = (_, { scanned: { perm } }, placed) => {
  if (perm?.length !== placed.dims.length) return UNREADABLE;
  const dims = perm.map((axis) => placed.dims[axis]!);
  return movePlaces(placed, dims, perm.indexOf(placed.channel), (index) =>
    placed.dims.map((_size, axis) => index[perm.indexOf(axis)]!),
  );
};

const slice: Rule = (walk, node, placed) => {
  const attributes = walk.constants.attributesOf(node);
  const read = (input: number, name: string): readonly number[] | undefined =>
    walk.sizes.listOf(node.inputs[input]) ?? attributes.get(name)?.ints;
  const [starts, ends, steps] = [read(1, 'starts'), read(2, 'ends'), read(4, 'steps')];
  const axes = read(3, 'axes') ?? starts?.map((_, axis) => axis);
  if (!starts || !ends || !axes || (node.inputs[4] && !steps)) return UNREADABLE;
  const taken = placed.dims.map((size, axis) => {
    const at = axes.findIndex((one) => (one < 0 ? one + placed.dims.length : one) === axis);
    const step = steps?.[at] ?? 1;
    const all = Array.from({ length: size }, (_, i) => i);
    return at < 0 || step < 1 ? all : all.slice(starts[at], ends[at]).filter((_, i) => i % step === 0);
  });
  if (steps?.some((step) => step < 1)) return UNREADABLE;
  const dims = taken.map(({ length }) => length);
  return movePlaces(placed, dims, placed.channel, (index) => index.map((at, axis) => taken[axis]![at]!));
};

const gather: Rule = (walk, node, placed) => {
  const given = walk.constants.attributesOf(node).get('axis')?.int ?? 0;
  const axis = given < 0 ? given + placed.dims.length : given;
  const index = walk.sizes.listOf(node.inputs[1]);
  const rank = walk.dimsOf(node.inputs[1])?.length ?? 0;
  if (axis === placed.channel)
    return rank === 1 && index ? { ...placed, dims: placed.dims.with(axis, index.length) } : undefined;
  if (!index || rank > 1 || placed.dims[axis] === undefined) return UNREADABLE;
  const size = placed.dims[axis]!;
  const chosen = movePlaces(placed, placed.dims.with(axis, index.length), placed.channel, (at) =>
    at.with(axis, index[at[axis]!]! < 0 ? index[at[axis]!]! + size : index[at[axis]!]!),
  );
  return rank === 1 ? chosen : reshapePlaces(chosen, chosen.dims.toSpliced(axis, 1));
};

/** Tokens, parts of a map that was rolled, or channels, one after the other. */
const concat: Rule = (walk, node, placed) => {
  const given = walk.constants.attributesOf(node).get('axis')?.int ?? 0;
  const axis = given < 0 ? given + placed.dims.length : given;
  if (placed.dims[axis] === undefined) return UNREADABLE;
  const parts = node.inputs.map((value): Found | undefined => {
    const found = walk.found.get(value!);
    if (found) return found;
    // Learned tokens have no place.
    const count = countAlong(walk, value!, axis);
    if (count === undefined || axis === placed.channel) return undefined;
    return movePlaces(placed, placed.dims.with(axis, count), placed.channel, () => [NaN]);
  });
  const known = parts.filter((part) => part !== undefined && part !== UNREADABLE);
  if (known.length < parts.length) return axis === placed.channel ? undefined : UNREADABLE;
  return joinPlaces(known, axis);
};

/** The tokens that a constant holds, before it is repeated for each row of a batch. */
function countAlong(walk: Walk, value: Value, axis: number): number | undefined {
  if (walk.isData(value)) return undefined;
  const size = (value.initializer?.dims ?? tensorType(value)?.dims)?.[axis];
  if (typeof size === 'number') return size;
  const [source, target] = value.producer?.inputs ?? [];
  const asked = value.producer?.opType === 'Expand' ? walk.sizes.listOf(target)?.[axis] : undefined;
  return asked !== undefined && asked > 1 ? asked : source && countAlong(walk, source, axis);
}

/** A border around a map. */
const pad: Rule = (walk, node, placed) => {
  const { dims, channel } = placed;
  const pads = walk.sizes.listOf(node.inputs[1]) ?? walk.constants.attributesOf(node).get('pads')?.ints;
  const isMap = dims.length === 4 && channel % 2 === 1 && isAligned(placed, placeMap(dims, channel));
  if (!isMap) return UNREADABLE;
  // A border of unknown width moves nothing.
  if (pads?.length !== 8 || pads[channel] !== 0 || pads[0] !== 0) return undefined;
  return mapOf(
    dims.map((size, axis) => size + pads[axis]! + pads[axis + 4]!),
    channel,
  );
};

const reduce: Rule = (walk, node, placed) => {
  const attributes = walk.constants.attributesOf(node);
  const given = walk.sizes.listOf(node.inputs[1]) ?? attributes.get('axes')?.ints;
  const axes = given?.map((axis) => (axis < 0 ? axis + placed.dims.length : axis));
  if (!axes || axes.includes(placed.channel)) return undefined;
  const pooled = poolPlaces(placed, axes);
  if (attributes.get('keepdims')?.int !== 0) return pooled;
  return reshapePlaces(
    pooled,
    pooled.dims.filter((_, axis) => !axes.includes(axis)),
  );
};

const RULES: Readonly<Record<string, Rule>> = {
  AveragePool: slide,
  Concat: concat,
  Conv: slide,
  ConvInteger: slide,
  Flatten: reshape,
  Gather: gather,
  MaxPool: slide,
  Pad: pad,
  ReduceMax: reduce,
  ReduceMean: reduce,
  ReduceSum: reduce,
  Reshape: reshape,
  Slice: slice,
  Squeeze: reshape,
  // Of the channels; what it gives is not followed further.
  Split: () => undefined,
  Transpose: transpose,
  Unsqueeze: reshape,
};
