/** Lets nodes that only move elements read 8-bit tensors: a rounding behind such a node goes before it, with the same values. */
import type { Attribute } from '../../../../onnx/file/scan/attributes.js';
import type { Node, Value } from '../../../../onnx/graph/graph.js';
import { operatorOf } from '../../../../onnx/graph/operators/operators.js';
import { isConstant } from '../constants.js';
import type { Rewrite } from '../../../../onnx/graph/rewrite/rewrite.js';
import { readName, type Read } from './layers.js';
import type { Rounding } from './roundings.js';

/** The reads of 8-bit tensors, in execution order, with the rounding of each tensor. */
export interface PlannedReads {
  readonly reads: readonly Read[];
  readonly roundings: ReadonlyMap<string, Rounding>;
}

/** Adds the reads of moving nodes. The tensor behind such a node is rounded as well, which changes nothing, because engines look for that. */
export function planReads(
  rewrite: Rewrite,
  reads: readonly Read[],
  roundings: ReadonlyMap<string, Rounding>,
  moving: ReadonlySet<Node>,
): PlannedReads {
  const planned = new Map(roundings);
  let all = [...reads];
  const isRounded = (node: Node, slot: number): boolean =>
    all.some((read) => read.node === node && read.slot === slot);
  const open = [...new Set(reads.map(({ tensor }) => tensor))];
  for (let tensor = open.pop(); tensor !== undefined; tensor = open.pop()) {
    const node = rewrite.cut.graph.values.get(tensor)?.producer;
    if (!node || !moving.has(node)) continue;
    const rounding = planned.get(tensor)!;
    if (rounding.factors) continue; // Behind the node, channels are elsewhere.
    const results = node.outputs.filter((output) => output !== undefined);
    const isOpen = results.some((one) => {
      const known = planned.get(one.name);
      return !known || !isSame(known, rounding) || !isReadRounded(rewrite, one, isRounded);
    });
    if (isOpen) continue;
    const slots = movedSlots(node);
    if (isRounded(node, 0)) continue; // Another result of the node came before.
    const sources = slots.map((slot) => readName(rewrite, node, slot));
    const fits = sources.every(
      (source) => source !== undefined && isSame(planned.get(source) ?? rounding, rounding),
    );
    if (!fits || node.inputs.some((input, slot) => slots.includes(slot) && (!input || isConstant(input))))
      continue;
    if (node.opType === 'Pad') {
      // Zeros are levels: nothing is rounded behind it, so that engines find the Pad right before its convolution and take it in.
      all = all.filter((read) => read.tensor !== tensor);
    }
    for (const [k, slot] of slots.entries()) {
      const source = sources[k]!;
      all.push({ node, slot, tensor: source });
      if (planned.has(source)) continue;
      planned.set(source, rounding);
      open.push(source);
    }
  }
  return {
    reads: all.toSorted((a, b) => a.node.index - b.node.index || a.slot - b.slot),
    roundings: planned,
  };
}

/** Whether everything that reads a tensor reads it rounded. */
function isReadRounded(
  { cut }: Rewrite,
  value: Value,
  isRounded: (node: Node, slot: number) => boolean,
): boolean {
  if (cut.outputs.some((output) => output.value === value)) return false;
  return value.uses.every(
    (reader) =>
      !cut.nodes.has(reader) ||
      (reader.inputs.includes(value) &&
        reader.inputs.every((input, slot) => input !== value || isRounded(reader, slot))),
  );
}

function isSame(a: Rounding, b: Rounding): boolean {
  return a.scale === b.scale && a.zero === b.zero && a.isSigned === b.isSigned && a.factors === b.factors;
}

/** Whether a node only moves elements, as far as its attributes say. */
export function movesLevels(node: Node, attributes: ReadonlyMap<string, Attribute>): boolean {
  const { domain, opType } = node;
  if (domain !== '' || operatorOf(node)?.levels === undefined) return false;
  if (opType === 'Pad')
    return (attributes.get('mode')?.text ?? 'constant') === 'constant' && !attributes.has('value');
  if (opType === 'Resize') {
    const hasFill = attributes.get('coordinate_transformation_mode')?.text === 'tf_crop_and_resize';
    return !hasFill && (attributes.get('mode')?.text ?? 'nearest') === 'nearest';
  }
  return true;
}

/** The slots whose elements a moving node passes on. */
function movedSlots(node: Node): readonly number[] {
  return operatorOf(node)?.levels === 'all' ? [...node.inputs.keys()] : [0];
}
