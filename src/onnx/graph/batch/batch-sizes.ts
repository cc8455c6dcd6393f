/** Follows shape arithmetic in a graph: which elements of a tensor of sizes grow with the batch. */
import type { Node } from '../graph.js';
import { operatorOf } from '../operators/operators.js';
import { refuse, type BatchWalk, type SizeEntry } from './batch-walk.js';

type Entries = readonly SizeEntry[];
type SizeRule = (walk: BatchWalk, node: Node, first: Entries) => Entries | undefined;

const same: SizeRule = (_, __, first) => first;

const gather: SizeRule = (walk, node, first) =>
  walk.integers(node, 1)?.map((index) => first.at(index) ?? null);

const slice: SizeRule = (walk, node, first) => {
  const [start] = walk.integers(node, 1) ?? walk.ints(node, 'starts') ?? [];
  const [end] = walk.integers(node, 2) ?? walk.ints(node, 'ends') ?? [];
  const [step = 1] = node.inputs[4] ? (walk.integers(node, 4) ?? [0]) : [];
  return start === undefined || end === undefined || step !== 1 ? undefined : first.slice(start, end);
};

const concat: SizeRule = (walk, node) => {
  const parts = node.inputs.map((value) => walk.entriesOf(value) ?? unknownList(walk, value));
  return parts.every((part) => part !== undefined) ? parts.flat() : undefined;
};

/** A list whose length alone is known. */
function unknownList(walk: BatchWalk, value: Node['inputs'][number]): Entries | undefined {
  const dims = value && walk.facts.dimsOf(value);
  const length = dims?.[0] ?? 1;
  return dims && dims.length < 2 && length <= MAX_RANK ? Array.from({ length }, () => null) : undefined;
}

/** No tensor has more axes. */
const MAX_RANK = 64;

/** An element grows with the batch if one of the elements that it is computed from does. */
const combine: SizeRule = (walk, node) => {
  const lists = node.inputs.flatMap((value) => (value ? [walk.entriesOf(value) ?? []] : []));
  const length = Math.max(...lists.map((list) => list.length));
  return Array.from({ length }, (_, i) =>
    lists.some((list) => (list.length === 1 ? list[0] : list[i]) === 'batch') ? 'batch' : null,
  );
};

const reduce: SizeRule = (_, __, first) => [first.includes('batch') ? 'batch' : null];

const RULES: Readonly<Record<string, SizeRule>> = {
  Identity: same,
  Cast: same,
  Unsqueeze: same,
  Squeeze: same,
  Reshape: same,
  Gather: gather,
  Slice: slice,
  Concat: concat,
  ReduceProd: reduce,
  ReduceSum: reduce,
  ReduceMax: reduce,
  ReduceMin: reduce,
};

function sizeRule(node: Node): SizeRule | undefined {
  const operator = node.domain === '' ? operatorOf(node) : undefined;
  if (!operator) return undefined;
  const isArithmetic = operator.sizes === 'elementwise' || operator.sizes === 'broadcast';
  return RULES[node.opType] ?? (isArithmetic ? combine : undefined);
}

/** Follows sizes through a node whose inputs do not depend on the values in the batch. */
export function trackSizes(walk: BatchWalk, node: Node): void {
  if (node.opType === 'Shape') {
    const sizes = node.outputs[0] && unknownList(walk, node.outputs[0]);
    return sizes && walk.setEntries(node.outputs[0], sizes);
  }
  if (node.reads.some((value) => walk.isSized(value))) walk.setSized(node);
  const rule = sizeRule(node);
  if (!rule) return;
  const [output] = node.outputs;
  const [first] = node.inputs;
  const length = output && unknownList(walk, output)?.length;
  if (length === undefined || !node.inputs.some((value) => walk.entriesOf(value))) return;
  if (LIMITS.has(node.opType)) checkLimit(walk, node);
  const entries = rule(walk, node, walk.entriesOf(first) ?? unknownList(walk, first) ?? []);
  if (entries?.length === length) walk.setEntries(output, entries);
}

/** Operators that give something else for a large batch than for a small one. */
const LIMITS: ReadonlySet<string> = new Set(
  'Min Max Clip Mod ReduceMax ReduceMin Less LessOrEqual Greater GreaterOrEqual'.split(' '),
);

/** Refuses to compare the batch with a number: runs of small batches could not show what happens beyond it. */
function checkLimit(walk: BatchWalk, node: Node): void {
  const entries = node.inputs.flatMap((value) => walk.entriesOf(value) ?? []);
  const others = entries.filter((entry) => entry !== 'batch');
  const isAlwaysLess = node.opType === 'Max' && others.every((entry) => entry !== null && entry <= 1);
  if (others.length < entries.length && !isAlwaysLess) refuse(node, 'compares the batch with another size');
}

/** The sizes of a tensor, as Shape gives them. */
export function trackShape(walk: BatchWalk, node: Node): void {
  const [data] = node.inputs;
  const at = walk.axisOf(data);
  const dims = data && walk.facts.dimsOf(data);
  walk.setSized(node);
  if (!at || !dims) return;
  const entries = dims.map((_, axis): SizeEntry => (axis === at.axis ? 'batch' : null));
  walk.setEntries(
    node.outputs[0],
    entries.slice(walk.int(node, 'start') ?? 0, walk.int(node, 'end') ?? dims.length),
  );
}

/** The number of elements, as Size gives it. */
export function trackCount(walk: BatchWalk, node: Node): void {
  walk.setSized(node);
  walk.setEntries(node.outputs[0], ['batch']);
}
