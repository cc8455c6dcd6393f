/** Operators that read sizes. Sizes that contain the exported batch as a number are replaced. */
import type { Node } from '../graph.js';
import { isSameSplit, listReshapedAxes, moveAxis, type BatchAxis } from './batch-axis.js';
import { trackSizes } from './batch-sizes.js';
import { refuse, showSizes, type BatchWalk, type SizeEntry } from './batch-walk.js';

/** The end that ONNX's documentation of Slice recommends for "to the end" with 32 bits; it works for int64 too. */
const TO_THE_END = 2 ** 31 - 1;

export function reshape(walk: BatchWalk, node: Node): void {
  const [data, target] = node.inputs;
  const from = walk.axisOf(data);
  const output = node.outputs[0];
  if (!from || !target) refuse(node, 'has its sizes as an attribute, or computed from samples');
  const before = walk.dimsOf(node, data);
  const after = walk.dimsOf(node, output);
  const places = listReshapedAxes(from, before, after, walk.batch);
  const entries = walk.entriesOf(target);
  const to = places.find(({ axis }) => entries?.[axis] === 'batch') ?? places[0];
  if (!to)
    refuse(node, `makes ${showSizes(after)} of ${showSizes(before)}, in which the batch was not found`);
  if (entries) retarget(walk, node, { from, to, entries, after });
  walk.setAxis(node, output, to);
}

interface Retarget {
  readonly from: BatchAxis;
  readonly to: BatchAxis;
  readonly entries: readonly SizeEntry[];
  readonly after: readonly number[];
}

/** Leaves a target unchanged if it is right for any batch. */
function retarget(walk: BatchWalk, node: Node, { from, to, entries, after }: Retarget): void {
  const isCopied = walk.int(node, 'allowzero') !== 1;
  const canCopy = isCopied && to.axis === from.axis && isSameSplit(to, from);
  const entry = entries[to.axis];
  const isOpen = entry === 'batch' || entry === -1 || (entry === 0 && canCopy);
  // A zero at another place would copy the batch to an axis that must keep its size.
  const isStale = (item: SizeEntry, axis: number): boolean =>
    axis !== to.axis && item === 0 && isCopied && axis === from.axis;
  if (isOpen && !entries.some(isStale)) return;
  const hasOpen = entries.some((item, axis) => item === -1 && axis !== to.axis);
  const replacement = isOpen && typeof entry === 'number' ? entry : canCopy ? 0 : -1;
  const numbers = entries.filter((item) => typeof item === 'number');
  if (numbers.length < entries.length) {
    // An entry that is computed in another way is probably right for any batch.
    if (entry === null && hasOpen && !canCopy) return;
    if (entries.some(isStale) || (replacement === -1 && hasOpen))
      refuse(node, `computes its target, of which a part was made for a batch of ${walk.batch}`);
    walk.edits.setEntry(node, 1, to.axis, replacement);
    return walk.note(node, `size ${to.axis} of its target → ${replacement}`);
  }
  const isDropped = (item: number): boolean => item === -1 && replacement === -1;
  const sizes = numbers.map((item, axis) => {
    if (axis === to.axis) return replacement;
    return isDropped(item) || isStale(item, axis) ? after[axis]! : item;
  });
  walk.edits.setIntegers(node, 1, sizes);
  walk.note(node, `${showSizes(numbers)} → ${showSizes(sizes)}`);
}

export function expand(walk: BatchWalk, node: Node): void {
  const [data, target] = node.inputs;
  const at = walk.axisOf(data);
  if (!at) refuse(node, 'computes its sizes from samples');
  const dims = walk.dimsOf(node, data);
  const fromRight = dims.length - at.axis;
  const entries = walk.entriesOf(target);
  const index = (entries?.length ?? 0) - fromRight;
  const entry = entries?.[index];
  if (typeof entry === 'number' && entry !== 1) {
    if (entry !== dims[at.axis]) refuse(node, 'repeats the batch');
    // Broadcasting with a 1 keeps any size.
    const numbers = entries!.filter((item) => typeof item === 'number');
    if (numbers.length < entries!.length) walk.edits.setEntry(node, 1, index, 1);
    else walk.edits.setIntegers(node, 1, numbers.with(index, 1));
    walk.note(node, `size ${index} of its target ${entry} → 1`);
  }
  const rank = walk.dimsOf(node, node.outputs[0]).length;
  walk.setAxis(node, node.outputs[0], moveAxis(at, rank - fromRight));
}

export function slice(walk: BatchWalk, node: Node): void {
  const [data, starts, ends] = node.inputs;
  const at = walk.axisOf(data);
  const [output] = node.outputs;
  const before = walk.dimsOf(node, data);
  const part = 'takes a part of the batch';
  if (!at || walk.dimsOf(node, output)[at.axis] !== before[at.axis]) refuse(node, part);
  const from = starts ? walk.entriesOf(starts) : walk.ints(node, 'starts');
  const to = ends ? walk.entriesOf(ends) : walk.ints(node, 'ends');
  const given = node.inputs[3] ? walk.integers(node, 3) : walk.ints(node, 'axes');
  if (!from || (!given && node.inputs[3])) refuse(node, 'computes its axes in the graph');
  const axes = given ?? [...from.keys()];
  const index = axes.findIndex((axis) => (axis < 0 ? axis + before.length : axis) === at.axis);
  if (index >= 0) {
    const step = node.inputs[4] ? walk.integers(node, 4)?.[index] : 1;
    const end = to?.[index];
    const isStated = end === before[at.axis];
    const isWhole = isStated || end === 'batch' || (typeof end === 'number' && end >= TO_THE_END);
    // Other numbers take the whole of a small batch, but a part of a large one.
    if (from[index] !== 0 || step !== 1 || !isWhole) refuse(node, part);
    if (isStated) toTheEnd(walk, node, index);
  }
  walk.setAxis(node, output, at);
}

/** Replaces an end that is the batch as a number. */
function toTheEnd(walk: BatchWalk, node: Node, index: number): void {
  const [, , ends] = node.inputs;
  if (!ends) refuse(node, 'ends at the batch it was exported for, in an attribute');
  const list = walk.integers(node, 2);
  if (list) walk.edits.setIntegers(node, 2, list.with(index, TO_THE_END), walk.facts.elemTypeOf(ends));
  else walk.edits.setEntry(node, 2, index, TO_THE_END);
  walk.note(node, `end ${walk.batch} → the end`);
}

/** Since this operator set, Resize reads its sizes from an input. */
const SIZES = 3;

export function resize(walk: BatchWalk, node: Node): void {
  const [data] = node.inputs;
  const at = walk.axisOf(data);
  const [output] = node.outputs;
  if (!at || walk.dimsOf(node, output)[at.axis] !== walk.dimsOf(node, data)[at.axis])
    refuse(node, 'resizes the batch');
  const axes = walk.ints(node, 'axes') ?? [];
  const index = axes.length === 0 ? at.axis : axes.indexOf(at.axis);
  const entries = walk.entriesOf(node.inputs[SIZES]);
  if (entries && index >= 0 && typeof entries[index] === 'number') {
    walk.edits.setEntry(node, SIZES, index, { sizeOf: data!, axis: at.axis });
    walk.note(node, `size ${index} of ${entries.join(', ')} → as its input`);
  }
  walk.setAxis(node, output, at);
}

/** Operators that create tensors from sizes that depend on the size of the batch, not on its values. */
export function fill(walk: BatchWalk, node: Node): void {
  trackSizes(walk, node);
  const position = FILLED.get(node.opType);
  const [output] = node.outputs;
  const target = position === undefined ? undefined : node.inputs[position];
  const dims = output && walk.facts.dimsOf(output);
  if (!target || !dims || walk.facts.integersOf(target)) return;
  const entries = walk.entriesOf(target);
  const isLikely = !entries && walk.isSized(target) && walk.batch > 1 && dims[0] === walk.batch;
  const index = entries?.indexOf('batch') ?? (isLikely ? 0 : -1);
  if (index < 0) return;
  const axis = dims.length - (entries?.length ?? dims.length) + index;
  const inner = dims[axis]! / walk.batch;
  if (!Number.isInteger(inner)) return;
  const at = { axis, outer: 1, inner };
  if (node.opType === 'Expand') repeatFilled(walk, node, at, dims.length);
  walk.setAxis(node, output, at);
}

/** A constant that was made for one batch: it is repeated for any batch. */
function repeatFilled(walk: BatchWalk, node: Node, at: BatchAxis, rank: number): void {
  const dims = walk.dimsOf(node, node.inputs[0]);
  const axis = at.axis - rank + dims.length;
  if ((dims[axis] ?? 1) !== 1) walk.repeat(node, 0, moveAxis(at, axis));
}

/** The input from which such operators read their sizes; for Range, its limit. */
const FILLED: ReadonlyMap<string, number> = new Map([
  ['ConstantOfShape', 0],
  ['Expand', 1],
  ['Tile', 1],
  ['Range', 1],
]);
