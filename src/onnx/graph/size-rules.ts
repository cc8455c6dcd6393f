/**
 * The sizes of an operator's first result, as ONNX's shape inference has them: from the sizes of its inputs, its attributes and constants.
 * Operators whose row in the registry says `own` stand here by name; the other rows share a rule.
 */
import type { Attribute } from '../file/scan/attributes.js';
import type { Dim } from '../file/wire/schema.js';
import type { Node, Value } from './graph.js';
import type { Operator } from './operators/operator.js';
import { operatorOf } from './operators/operators.js';

export type Dims = readonly Dim[];

/** What is known of a node's surroundings. */
export interface SizeFacts {
  /** Undefined if the rank is unknown. */
  readonly dimsOf: (value: Value | undefined) => Dims | undefined;
  readonly attributesOf: (node: Node) => ReadonlyMap<string, Attribute>;
  /** The elements of a short constant of integers. */
  readonly integersOf: (value: Value) => readonly number[] | undefined;
  /** What stands for a size that follows by a formula from one with a name: null, or a name. */
  readonly nameSize: (formula: string) => Dim;
}

/** The sizes of a node's first output; undefined if they do not follow. */
type SizeRule = (node: Node, facts: SizeFacts) => Dims | undefined;

const same: SizeRule = ({ inputs }, { dimsOf }) => dimsOf(inputs[0]);

const broadcast: SizeRule = ({ inputs }, { dimsOf }) => {
  const all = inputs.filter((value) => value !== undefined).map(dimsOf);
  return all.every((dims) => dims !== undefined) ? broadcastDims(all) : undefined;
};

/** A number above 1 decides. Names decide if there is only one: two can stand for 1 and another size, or for one size. */
function broadcastDims(all: readonly Dims[]): Dims | undefined {
  const rank = Math.max(0, ...all.map((dims) => dims.length));
  const joined = Array.from({ length: rank }, (_, axis): Dim | undefined => {
    const sizes = new Set(
      all.map((dims) => dims[axis - rank + dims.length]).filter((size) => size !== undefined),
    );
    sizes.delete(1);
    const numbers = [...sizes].filter((size) => typeof size === 'number');
    if (numbers.length > 1) return undefined;
    const [only = 1] = numbers.length === 1 ? numbers : sizes.size > 1 ? [null] : sizes;
    return only;
  });
  return joined.every((size) => size !== undefined) ? joined : undefined;
}

const transpose: SizeRule = ({ inputs, scanned }, { dimsOf }) => {
  const dims = dimsOf(inputs[0]);
  return scanned.perm ? dims && scanned.perm.map((axis) => dims[axis] ?? null) : dims?.toReversed();
};

const concat: SizeRule = (node, { dimsOf, attributesOf }) => {
  const all = node.inputs.map(dimsOf);
  const known = all.filter((dims) => dims !== undefined);
  const rank = known[0]?.length;
  if (rank === undefined || known.some((dims) => dims.length !== rank)) return undefined;
  const along = axisOf(attributesOf(node).get('axis')?.int ?? 0, rank);
  return Array.from({ length: rank }, (_, axis): Dim => {
    if (axis !== along) return mergeSizes(known.map((dims) => dims[axis]!));
    return known.length < all.length ? null : sum(known.map((dims) => dims[axis]!));
  });
};

/** Sizes that are equal: a number says most, else the first name. */
function mergeSizes(sizes: Dims): Dim {
  return (
    sizes.find((size) => typeof size === 'number') ?? sizes.find((size) => typeof size === 'string') ?? null
  );
}

function sum(sizes: Dims): Dim {
  return sizes.every((size) => typeof size === 'number') ? sizes.reduce((all, size) => all + size, 0) : null;
}

/** The product of sizes: open if one is, unless the others are 1. */
function product(sizes: Dims): Dim {
  return sizes.reduce<Dim>((left, right) => {
    if (left === 1) return right;
    if (right === 1) return left;
    return typeof left === 'number' && typeof right === 'number' ? left * right : null;
  }, 1);
}

function axisOf(axis: number, rank: number): number {
  return axis < 0 ? axis + rank : axis;
}

/** Convolutions and pools keep the samples; every other axis follows by a formula. `weightAt`: the input that holds the weights of a convolution. */
const slide =
  (weightAt?: number): SizeRule =>
  (node, { dimsOf, attributesOf, nameSize }) => {
    const dims = dimsOf(node.inputs[0]);
    const attributes = attributesOf(node);
    const weight = weightAt === undefined ? undefined : dimsOf(node.inputs[weightAt]);
    const kernel = attributes.get('kernel_shape')?.ints ?? weight?.slice(2);
    if (!dims || !kernel || dims.length !== kernel.length + 2) return undefined;
    if (weightAt !== undefined && !weight) return undefined;
    const list = (name: string, axis: number, otherwise: number): number =>
      attributes.get(name)?.ints[axis] ?? otherwise;
    const mode = attributes.get('auto_pad')?.text ?? 'NOTSET';
    const isCeil = attributes.get('ceil_mode')?.int === 1;
    const spatial = kernel.map((size, axis): Dim | undefined => {
      const before = dims[axis + 2]!;
      if (before === null || typeof size !== 'number') return null;
      const stride = list('strides', axis, 1);
      if (mode.startsWith('SAME')) {
        if (typeof before === 'number') return Math.ceil(before / stride);
        return stride === 1 ? before : nameSize(`ceil((${before})/${stride})`);
      }
      const pads = mode === 'VALID' ? 0 : list('pads', axis, 0) + list('pads', kernel.length + axis, 0);
      const lost = list('dilations', axis, 1) * (size - 1) - pads;
      if (typeof before === 'number') {
        const steps = (before - lost - 1) / stride;
        // A last window that would start behind the map is left out since operator set 19 only.
        const isDoubtful = isCeil && Math.ceil(steps) * stride >= before + list('pads', axis, 0);
        return steps < 0 || isDoubtful ? undefined : (isCeil ? Math.ceil(steps) : Math.floor(steps)) + 1;
      }
      if (stride === 1 && lost === 0) return before;
      return nameSize(`${isCeil ? 'ceil' : 'floor'}((${before})-${lost}-1)/${stride})+1`);
    });
    if (!spatial.every((size) => size !== undefined)) return undefined;
    return [dims[0]!, weight ? weight[0]! : dims[1]!, ...spatial];
  };

const globalPool: SizeRule = ({ inputs }, { dimsOf }) => {
  const dims = dimsOf(inputs[0]);
  return dims && dims.length > 1 ? dims.map((size, axis) => (axis < 2 ? size : 1)) : undefined;
};

const matrixProduct =
  (second: number): SizeRule =>
  ({ inputs }, { dimsOf }) => {
    const [left, right] = [dimsOf(inputs[0]), dimsOf(inputs[second])];
    if (!left?.length || !right?.length) return undefined;
    const batch = broadcastDims([left.slice(0, -2), right.slice(0, -2)]);
    const rows = left.length > 1 ? [left.at(-2)!] : [];
    const columns = right.length > 1 ? [right.at(-1)!] : [];
    return batch && [...batch, ...rows, ...columns];
  };

const gemm: SizeRule = (node, { dimsOf, attributesOf }) => {
  const [left, right] = [dimsOf(node.inputs[0]), dimsOf(node.inputs[1])];
  if (left?.length !== 2 || right?.length !== 2) return undefined;
  const isTurned = (name: string): boolean => (attributesOf(node).get(name)?.int ?? 0) !== 0;
  return [left[isTurned('transA') ? 1 : 0]!, right[isTurned('transB') ? 0 : 1]!];
};

const flatten: SizeRule = (node, { dimsOf, attributesOf }) => {
  const dims = dimsOf(node.inputs[0]);
  if (!dims) return undefined;
  const axis = axisOf(attributesOf(node).get('axis')?.int ?? 1, dims.length);
  return [product(dims.slice(0, axis)), product(dims.slice(axis))];
};

const reshape: SizeRule = (node, { dimsOf, attributesOf, integersOf }) => {
  const dims = dimsOf(node.inputs[0]);
  const target = node.inputs[1] && integersOf(node.inputs[1]);
  if (!dims || !target) return undefined;
  const isCopied = (size: number): boolean => size === 0 && attributesOf(node).get('allowzero')?.int !== 1;
  if (target.some((size, axis) => isCopied(size) && axis >= dims.length)) return undefined;
  const sizes = target.map((size, axis): Dim => (isCopied(size) ? dims[axis]! : size));
  if (!target.includes(-1)) return sizes;
  // Open sizes that are copied cancel.
  const isOpen = (size: Dim, axis: number): boolean => typeof size !== 'number' && target[axis] === 0;
  const before = product(dims.map((size, axis) => (isOpen(size, axis) ? 1 : size)));
  const after = product(sizes.map((size, axis) => (size === -1 || isOpen(size, axis) ? 1 : size)));
  if (typeof before !== 'number' || typeof after !== 'number')
    return sizes.map((size) => (size === -1 ? null : size));
  if (after === 0 || before % after !== 0) return undefined;
  return sizes.map((size) => (size === -1 ? before / after : size));
};

/** The axes of a node, from its attribute or an input; `all` if it states none, undefined if they are computed. */
function readAxes(
  node: Node,
  at: number,
  { attributesOf, integersOf }: SizeFacts,
): readonly number[] | 'all' | undefined {
  const stated = attributesOf(node).get('axes')?.ints;
  if (stated) return stated;
  return node.inputs[at] ? integersOf(node.inputs[at]) : 'all';
}

const reduce: SizeRule = (node, facts) => {
  const dims = facts.dimsOf(node.inputs[0]);
  const given = readAxes(node, 1, facts);
  if (!dims || !given) return undefined;
  const attributes = facts.attributesOf(node);
  const isWhole = given === 'all' || given.length === 0;
  if (isWhole && attributes.get('noop_with_empty_axes')?.int === 1) return dims;
  const axes = isWhole ? undefined : new Set(given.map((axis) => axisOf(axis, dims.length)));
  return withoutAxes(dims, (axis) => axes?.has(axis) ?? true, attributes.get('keepdims')?.int ?? 1);
};

const findPlace: SizeRule = (node, { dimsOf, attributesOf }) => {
  const dims = dimsOf(node.inputs[0]);
  const attributes = attributesOf(node);
  const along = dims && axisOf(attributes.get('axis')?.int ?? 0, dims.length);
  return dims && withoutAxes(dims, (axis) => axis === along, attributes.get('keepdims')?.int ?? 1);
};

function withoutAxes(dims: Dims, isGone: (axis: number) => boolean, keep: number): Dims {
  return dims.flatMap((size, axis) => (isGone(axis) ? (keep === 1 ? [1] : []) : [size]));
}

const squeeze: SizeRule = (node, facts) => {
  const dims = facts.dimsOf(node.inputs[0]);
  const given = readAxes(node, 1, facts);
  if (!dims || !given) return undefined;
  if (given === 'all')
    return dims.every((size) => typeof size === 'number') ? dims.filter((size) => size !== 1) : undefined;
  const axes = new Set(given.map((axis) => axisOf(axis, dims.length)));
  return dims.filter((_, axis) => !axes.has(axis));
};

const unsqueeze: SizeRule = (node, facts) => {
  const dims = facts.dimsOf(node.inputs[0]);
  const given = readAxes(node, 1, facts);
  if (!dims || !given || given === 'all') return undefined;
  const rank = dims.length + given.length;
  const axes = new Set(given.map((axis) => axisOf(axis, rank)));
  const rest = dims[Symbol.iterator]();
  return Array.from({ length: rank }, (_, axis): Dim => (axes.has(axis) ? 1 : (rest.next().value ?? null)));
};

const gather: SizeRule = (node, { dimsOf, attributesOf }) => {
  const [data, at] = [dimsOf(node.inputs[0]), dimsOf(node.inputs[1])];
  if (!data || !at) return undefined;
  const axis = axisOf(attributesOf(node).get('axis')?.int ?? 0, data.length);
  return [...data.slice(0, axis), ...at, ...data.slice(axis + 1)];
};

const slice: SizeRule = (node, { dimsOf, attributesOf, integersOf }) => {
  const dims = dimsOf(node.inputs[0]);
  const read = (name: string, at: number): readonly number[] | 'all' | undefined =>
    attributesOf(node).get(name)?.ints ?? (node.inputs[at] ? integersOf(node.inputs[at]) : 'all');
  const [starts, ends, axes, steps] = [read('starts', 1), read('ends', 2), read('axes', 3), read('steps', 4)];
  if (!dims || !starts || !ends || !axes || !steps || starts === 'all' || ends === 'all') return undefined;
  const sizes: Dim[] = [...dims];
  for (const [i, start] of starts.entries()) {
    const axis = axes === 'all' ? i : axisOf(axes[i]!, dims.length);
    const step = steps === 'all' ? 1 : steps[i]!;
    const size = dims[axis];
    // Other steps, and ranges of open sizes, are left to a session.
    if (step < 1 || typeof size !== 'number' || ends[i] === undefined) return undefined;
    const clamp = (to: number): number => Math.max(0, Math.min(size, to < 0 ? to + size : to));
    sizes[axis] = Math.max(0, Math.ceil((clamp(ends[i]!) - clamp(start)) / step));
  }
  return sizes;
};

const pad: SizeRule = (node, { dimsOf, attributesOf, integersOf }) => {
  const dims = dimsOf(node.inputs[0]);
  const pads = attributesOf(node).get('pads')?.ints ?? (node.inputs[1] && integersOf(node.inputs[1]));
  const isPlain = !node.inputs[3] && pads?.length === 2 * (dims?.length ?? NaN);
  if (!dims || !pads || !isPlain) return undefined;
  return dims.map((size, axis): Dim => {
    const more = pads[axis]! + pads[dims.length + axis]!;
    return typeof size === 'number' ? size + more : more === 0 ? size : null;
  });
};

const shapeOf: SizeRule = (node, { dimsOf, attributesOf }) => {
  const rank = dimsOf(node.inputs[0])?.length;
  const attributes = attributesOf(node);
  if (rank === undefined || attributes.has('start') || attributes.has('end')) return undefined;
  return [rank];
};

const expand: SizeRule = (node, { dimsOf, integersOf }) => {
  const [dims, to] = [dimsOf(node.inputs[0]), node.inputs[1] && integersOf(node.inputs[1])];
  return dims && to && broadcastDims([dims, to]);
};

/** Blocks of height and width become channels, or channels become blocks. */
const moveBlocks =
  (isToDepth: boolean): SizeRule =>
  (node, { dimsOf, attributesOf }) => {
    const dims = dimsOf(node.inputs[0]);
    const block = attributesOf(node).get('blocksize')?.int;
    if (dims?.length !== 4 || !block) return undefined;
    const [batch, ...rest] = dims as [Dim, Dim, Dim, Dim];
    const factors = [block * block, 1 / block, 1 / block].map((factor) => (isToDepth ? factor : 1 / factor));
    const sizes = rest.map((size, i): Dim => (typeof size === 'number' ? size * factors[i]! : null));
    return sizes.every((size) => size === null || Number.isInteger(size)) ? [batch, ...sizes] : undefined;
  };

const SHARED: Readonly<Record<Exclude<Operator['sizes'], 'own' | 'unknown'>, SizeRule>> = {
  elementwise: same,
  same,
  broadcast,
  reduced: reduce,
};

/** Rules of single operators. */
export const SIZE_RULES: Readonly<Record<string, SizeRule>> = {
  ArgMax: findPlace,
  ArgMin: findPlace,
  AveragePool: slide(),
  Concat: concat,
  Conv: slide(1),
  ConvInteger: slide(1),
  DepthToSpace: moveBlocks(false),
  Expand: expand,
  Flatten: flatten,
  Gather: gather,
  Gemm: gemm,
  GlobalAveragePool: globalPool,
  GlobalLpPool: globalPool,
  GlobalMaxPool: globalPool,
  LpPool: slide(),
  MatMul: matrixProduct(1),
  MatMulInteger: matrixProduct(1),
  MaxPool: slide(),
  Pad: pad,
  QLinearConv: slide(3),
  QLinearMatMul: matrixProduct(3),
  Reshape: reshape,
  Shape: shapeOf,
  Slice: slice,
  SpaceToDepth: moveBlocks(true),
  Squeeze: squeeze,
  Transpose: transpose,
  Unsqueeze: unsqueeze,
};

/** The sizes of a node's first output, as far as they follow from its inputs. */
export function sizesOf(node: Node, facts: SizeFacts): Dims | undefined {
  const sizes = node.domain === '' ? (operatorOf(node)?.sizes ?? 'unknown') : 'unknown';
  if (sizes === 'unknown') return undefined;
  return (sizes === 'own' ? SIZE_RULES[node.opType]! : SHARED[sizes])(node, facts);
}
