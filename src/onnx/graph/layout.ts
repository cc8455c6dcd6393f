/** Which axis of a tensor holds the channels, proven by the operators that made it. */
import { oncePer } from '../../base/once-per.js';
import type { Dim } from '../file/wire/schema.js';
import { tensorType, type Graph, type Node, type Value } from './graph.js';
import { operatorOf } from './operators/operators.js';
import { nodeRoles } from './roles.js';

/** How the axes of a tensor are meant: N batch, C channels, T time, H and W a map, L tokens. */
export type Layout = 'NCTHW' | 'NTHWC' | 'NCHW' | 'NHWC' | 'NLC' | 'NCL' | 'NC';

/**
 * By rank: for each node, the axes of what it gives that operators name as channels, as bits. The bit at the rank stands for no axis, the
 * one above it for a product of activations, such as attention.
 */
const namedAxes = oncePer(() => new Map<number, ReadonlyMap<Node, number>>());

/** The order of the axes of a value, proven by the operators that compute it; null if they prove no order. */
export function provenLayout(graph: Graph, value: Value, dims: readonly Dim[]): Layout | null {
  if (dims.length === 2) return 'NC';
  if (dims.length < 3 || dims.length > 5) return null;
  const axis = channelAxis(graph, value, dims.length);
  if (dims.length === 5) return axis === 1 ? 'NCTHW' : axis === 4 ? 'NTHWC' : null;
  if (dims.length === 3) return axis === 2 ? 'NLC' : axis === 1 ? 'NCL' : null;
  return axis === 1 ? 'NCHW' : axis === 3 ? 'NHWC' : null;
}

/** The probable order of four axes: two equal sizes are those of a map, and up to four channels are colours. */
export function likelyLayout(dims: readonly Dim[]): Layout | null {
  if (dims.length !== 4) return null;
  const [, a, b, c] = dims;
  if (typeof b === 'number' && a !== c) {
    if (a === b) return 'NHWC';
    if (b === c) return 'NCHW';
  }
  const isFewer = (size: Dim | undefined): boolean => typeof size === 'number' && size <= 4;
  return isFewer(a) === isFewer(c) ? null : isFewer(a) ? 'NCHW' : 'NHWC';
}

/** The axis of the channels of a value of this rank; undefined where no operator fixes it, or several disagree. Walks the graph once per rank. */
export function channelAxis(graph: Graph, value: Value, rank: number): number | undefined {
  const axes = axesOfValue(graph, value, rank) & ~productBit(rank);
  return Array.from({ length: rank }, (_, at) => at).find((at) => axes === 1 << at);
}

/** Whether a value comes from a product of activations, and nothing shows its channels. */
export function isAttention(graph: Graph, value: Value, rank: number): boolean {
  return axesOfValue(graph, value, rank) === productBit(rank);
}

function productBit(rank: number): number {
  return 1 << (rank + 1);
}

function axesOfValue(graph: Graph, value: Value, rank: number): number {
  if (!value.producer || (rankOf(value) ?? rank) !== rank) return 0;
  const ofRanks = namedAxes(graph);
  const named = ofRanks.get(rank) ?? nameAxes(graph, rank);
  ofRanks.set(rank, named);
  return named.get(value.producer) ?? 0;
}

/** The axes that each node's operator names, or inherits from what it reads. Nodes that depend on no input have no axes. */
function nameAxes(graph: Graph, rank: number): ReadonlyMap<Node, number> {
  const roles = nodeRoles(graph);
  const isData = (read: Value | undefined): boolean =>
    read?.producer !== undefined && roles.get(read.producer) === 'data';
  const named = new Map<Node, number>();
  const axesOf = (read: Value | undefined): number =>
    read?.producer && (rankOf(read) ?? rank) === rank ? (named.get(read.producer) ?? 0) : 0;
  for (const node of graph.nodes) {
    if (roles.get(node) !== 'data') continue;
    const { perm } = node.scanned;
    const kind = operatorOf(node)?.axes;
    const isLast =
      (kind === 'product' && !isData(node.inputs[1]) && isFedByWeight(node)) ||
      (kind === 'normalised' && normalizesLast(node));
    let axes = 0;
    if (kind === 'channels second') axes = 1 << 1;
    else if (isLast) axes = 1 << (rank - 1);
    else if (kind === 'product' && isData(node.inputs[1])) axes = productBit(rank);
    else if (kind === 'turned' && perm?.length === rank) axes = turn(axesOf(node.inputs[0]), perm);
    else if (kind === 'reduced' && rankOf(node.inputs[0]) === rank) axes = axesOf(node.inputs[0]);
    else if (kind === 'kept') for (const read of node.inputs) axes |= axesOf(read);
    if (axes !== 0) named.set(node, axes);
  }
  return named;
}

/** Where axes are after a transposition. A damaged `perm` may lose some. */
function turn(axes: number, perm: readonly number[]): number {
  let turned = axes & ~((1 << perm.length) - 1);
  for (let from = 0; from < perm.length; from++) {
    if ((axes & (1 << from)) === 0) continue;
    const to = perm.indexOf(from);
    turned |= 1 << (to < 0 ? perm.length : to);
  }
  return turned;
}

/** Layer normalisation over one axis, the last: its scale has one as well. */
function normalizesLast({ inputs }: Node): boolean {
  return (inputs[1]?.initializer?.dims.length ?? 1) === 1;
}

function rankOf(value: Value | undefined): number | undefined {
  return value && tensorType(value)?.dims?.length;
}

/** A product of two tensors that both depend on an input (attention scores) is no linear layer. */
function isFedByWeight(node: Node): boolean {
  const weight = node.inputs[1];
  return weight !== undefined && (weight.producer !== undefined || weight.initializer !== undefined);
}
