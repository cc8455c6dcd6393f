/**
 * Names for sizes that the runtime leaves open: a name stands for one size everywhere, so two tensors with one name need no check when
 * the graph runs. A network with open height and width has such sizes after its first convolution.
 */
import type { Dim } from '../../onnx/file/wire/schema.js';
import type { Node, Value } from '../../onnx/graph/graph.js';
import { operatorOf } from '../../onnx/graph/operators/operators.js';
import type { Cut } from '../../onnx/graph/rewrite/prune.js';
import type { GradientFacts } from './backward/backward.js';

type Dims = readonly Dim[];

/** What is known while the names spread. */
interface Known {
  readonly dimsOf: (value: Value | undefined) => Dims | undefined;
  readonly attributesOf: GradientFacts['attributesOf'];
}

/** The sizes of a node's first output, as far as they follow from its inputs; undefined if they do not. */
type Spread = (node: Node, known: Known) => Dims | undefined;

const same: Spread = ({ inputs }, { dimsOf }) => dimsOf(inputs[0]);

const broadcast: Spread = ({ inputs }, { dimsOf }) => {
  const all = inputs.filter((value) => value !== undefined).map(dimsOf);
  if (!all.every((dims) => dims !== undefined)) return undefined;
  const rank = Math.max(...all.map((dims) => dims.length));
  const aligned = all.map((dims): Dims =>
    Array.from({ length: rank - dims.length }, (): Dim => 1).concat(dims),
  );
  const joined = (size: Dim, other: Dim): Dim =>
    size === 1 ? other : other === 1 || size === other ? size : null;
  return Array.from({ length: rank }, (_, axis) => aligned.map((dims) => dims[axis]!).reduce<Dim>(joined, 1));
};

const transpose: Spread = ({ inputs, scanned }, { dimsOf }) => {
  const dims = dimsOf(inputs[0]);
  return scanned.perm ? dims && scanned.perm.map((axis) => dims[axis] ?? null) : dims?.toReversed();
};

const concat: Spread = (node, { dimsOf, attributesOf }) => {
  const dims = node.inputs.map(dimsOf).find((one) => one !== undefined);
  const axis = attributesOf(node).get('axis')?.int ?? 0;
  return dims?.map((size, i) => (i === (axis < 0 ? axis + dims.length : axis) ? null : size));
};

/** Convolutions and pools keep the samples; the size of every other axis follows from a formula, which is its name. */
const slide: Spread = (node, { dimsOf, attributesOf }) => {
  const dims = dimsOf(node.inputs[0]);
  const attributes = attributesOf(node);
  const weight = node.opType === 'Conv' ? dimsOf(node.inputs[1]) : undefined;
  const kernel = attributes.get('kernel_shape')?.ints ?? weight?.slice(2);
  if (!dims || !kernel || dims.length !== kernel.length + 2) return undefined;
  const list = (name: string, axis: number, otherwise: number): number =>
    attributes.get(name)?.ints[axis] ?? otherwise;
  const mode = attributes.get('auto_pad')?.text ?? 'NOTSET';
  const isCeil = attributes.get('ceil_mode')?.int === 1;
  const spatial = kernel.map((size, axis): Dim => {
    const before = dims[axis + 2]!;
    if (typeof before !== 'string' || typeof size !== 'number') return null;
    const stride = list('strides', axis, 1);
    if (mode.startsWith('SAME')) return stride === 1 ? before : `ceil((${before})/${stride})`;
    const pads = list('pads', axis, 0) + list('pads', kernel.length + axis, 0);
    const lost = list('dilations', axis, 1) * (size - 1) - (mode === 'VALID' ? 0 : pads);
    return stride === 1 && lost === 0
      ? before
      : `${isCeil ? 'ceil' : 'floor'}((${before})-${lost}-1)/${stride})+1`;
  });
  return [dims[0]!, node.opType === 'Conv' ? (weight?.[0] ?? null) : dims[1]!, ...spatial];
};

const SPREADS = { elementwise: same, same, broadcast } as const;

/** Rules of single operators. */
export const SIZE_RULES: Readonly<Record<string, Spread>> = {
  AveragePool: slide,
  Concat: concat,
  Conv: slide,
  MaxPool: slide,
  Transpose: transpose,
};

function spreadOf(node: Node): Spread | undefined {
  const sizes = operatorOf(node)?.sizes ?? 'unknown';
  return sizes === 'own' ? SIZE_RULES[node.opType] : sizes === 'unknown' ? undefined : SPREADS[sizes];
}

/** The facts with names for open sizes. */
export function nameOpenSizes(cut: Cut, facts: GradientFacts): GradientFacts {
  const named = new Map<Value, Dims>();
  const dimsOf = (value: Value): Dims | undefined => named.get(value) ?? facts.dimsOf(value);
  const known: Known = { dimsOf: (value) => value && dimsOf(value), attributesOf: facts.attributesOf };
  for (const node of cut.graph.nodes) {
    const [output] = node.outputs;
    if (!cut.nodes.has(node) || !output || node.domain !== '') continue;
    const stated = facts.dimsOf(output);
    if (stated?.every((size) => size !== null)) continue;
    const derived = spreadOf(node)?.(node, known);
    if (!derived || (stated && stated.length !== derived.length)) continue;
    named.set(
      output,
      derived.map((size, axis) => stated?.[axis] ?? size),
    );
  }
  return { ...facts, dimsOf };
}
