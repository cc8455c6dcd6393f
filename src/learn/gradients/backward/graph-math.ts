/** Arithmetic on tensors, as nodes: the vocabulary in which rules are written. */
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import type { NodeBuilder } from '../../../onnx/graph/rewrite/node-builder.js';

/** The name of a tensor, or a number: a scalar of the element type of the arithmetic. */
export type Term = string | number;

/** Names of scalar constants by element type and value, so that each is written once. */
export type Scalars = Map<string, string>;

/** Since this operator set, Squeeze and Unsqueeze read their axes from an input. */
const AXES_INPUT = 13;
/** Since this operator set, Pad reads its bounds from an input. */
const PAD_INPUTS = 11;
/** Since this operator set, Reshape can keep a size of 0. */
const RESHAPE_ALLOWS_ZERO = 14;

/** An end beyond any axis. */
export const TO_THE_END: number = 2 ** 31 - 1;

/** The axes from one on. */
export function axesFrom(first: number, rank: number): number[] {
  return Array.from({ length: rank - first }, (_, i) => first + i);
}

/** Adds nodes that compute with tensors of one element type. */
export class GraphMath {
  readonly nodes: NodeBuilder;
  readonly elemType: number;
  readonly #scalars: Scalars;

  /** @param elemType - The type of numbers in terms. */
  constructor(nodes: NodeBuilder, elemType: number, scalars: Scalars) {
    this.nodes = nodes;
    this.elemType = elemType;
    this.#scalars = scalars;
  }

  add(a: Term, b: Term): string {
    return this.#binary('Add', a, b);
  }

  sub(a: Term, b: Term): string {
    return this.#binary('Sub', a, b);
  }

  mul(a: Term, b: Term): string {
    return this.#binary('Mul', a, b);
  }

  div(a: Term, b: Term): string {
    return this.#binary('Div', a, b);
  }

  pow(a: Term, b: Term): string {
    return this.#binary('Pow', a, b);
  }

  equal(a: Term, b: Term): string {
    return this.#binary('Equal', a, b);
  }

  greater(a: Term, b: Term): string {
    return this.#binary('Greater', a, b);
  }

  less(a: Term, b: Term): string {
    return this.#binary('Less', a, b);
  }

  matmul(a: Term, b: Term): string {
    return this.#binary('MatMul', a, b);
  }

  /** An operator with one input and no attributes: `one('Exp', x)`. */
  one(opType: string, input: string): string {
    return this.nodes.add(opType, [input]);
  }

  /** `a` where the condition holds, `b` elsewhere. */
  where(condition: string, a: Term, b: Term): string {
    return this.nodes.add('Where', [condition, this.term(a), this.term(b)]);
  }

  /** 1 where the condition holds, 0 elsewhere. */
  indicator(condition: string): string {
    return this.cast(condition, this.elemType);
  }

  cast(input: string, to: number): string {
    return this.nodes.add('Cast', [input], { to });
  }

  sum(input: string, axes: readonly number[], keepDims = true): string {
    return axes.length === 0 ? input : this.nodes.reduce('ReduceSum', input, axes, keepDims);
  }

  mean(input: string, axes: readonly number[]): string {
    return axes.length === 0 ? input : this.nodes.reduce('ReduceMean', input, axes, true);
  }

  transpose(input: string, perm: readonly number[]): string {
    return perm.every((axis, i) => axis === i) ? input : this.nodes.add('Transpose', [input], { perm });
  }

  /** The same elements under other dims: `shape` is a list (0 keeps a size, -1 is inferred) or a tensor with the exact sizes. */
  reshape(input: string, shape: string | readonly number[]): string {
    if (typeof shape !== 'string') return this.nodes.reshape(input, shape);
    const exact = this.nodes.opset >= RESHAPE_ALLOWS_ZERO ? { allowzero: 1 } : {};
    return this.nodes.add('Reshape', [input, shape], exact);
  }

  unsqueeze(input: string, axes: readonly number[]): string {
    return axes.length === 0 ? input : this.#withAxes('Unsqueeze', input, axes);
  }

  squeeze(input: string, axes: readonly number[]): string {
    return this.#withAxes('Squeeze', input, axes);
  }

  expand(input: Term, shape: string): string {
    return this.nodes.add('Expand', [this.term(input), shape]);
  }

  concat(inputs: readonly string[], axis: number): string {
    return inputs.length === 1 ? inputs[0]! : this.nodes.add('Concat', inputs, { axis });
  }

  /** A slice of known axes. Bounds are lists or tensors. */
  slice(
    input: string,
    axes: readonly number[],
    starts: string | readonly number[],
    ends: string | readonly number[],
    steps: readonly number[] = axes.map(() => 1),
  ): string {
    const isPlain = steps.every((step) => step === 1);
    const inputs = [input, this.ints(starts), this.ints(ends), this.ints(axes)];
    return this.nodes.add('Slice', isPlain ? inputs : [...inputs, this.ints(steps)]);
  }

  /** Adds zeros, or another value, around a tensor; negative pads cut. All begins come before all ends. */
  pad(input: string, pads: string | readonly number[], filler = 0): string {
    if (typeof pads !== 'string' && pads.every((size) => size === 0)) return input;
    if (this.nodes.opset < PAD_INPUTS && typeof pads !== 'string')
      return this.nodes.add('Pad', [input], { pads, value: { float: filler } });
    const inputs = [input, this.ints(pads)];
    return this.nodes.add('Pad', filler === 0 ? inputs : [...inputs, this.scalar(filler)]);
  }

  /** Adds updates to zeros at indices, by ScatterElements or ScatterND. In float32 for half precision, in which onnxruntime's CPU cannot. */
  scatterAdd(
    opType: string,
    sizes: string,
    indices: string,
    updates: string,
    attributes: Readonly<Record<string, number>> = {},
  ): string {
    const isHalf = this.elemType === ELEMENT_TYPE.float16 || this.elemType === ELEMENT_TYPE.bfloat16;
    const type = isHalf ? ELEMENT_TYPE.float32 : this.elemType;
    const zeros = this.expand(this.scalar(0, type), sizes);
    const given = isHalf ? this.cast(updates, type) : updates;
    const added = this.nodes.add(opType, [zeros, indices, given], { ...attributes, reduction: 'add' });
    return isHalf ? this.cast(added, this.elemType) : added;
  }

  /** The sizes of a tensor when the graph runs. */
  sizes(input: string): string {
    return this.nodes.add('Shape', [input]);
  }

  /** An int64 list as a tensor; a tensor stays. */
  ints(values: string | readonly number[]): string {
    return typeof values === 'string' ? values : this.nodes.integers(values);
  }

  /** The matrix `[size, size]` that puts elements in reverse order. */
  antidiagonal(size: number): string {
    const data = new Float32Array(size * size);
    for (let i = 0; i < size; i++) data[(i + 1) * (size - 1)] = 1;
    const matrix = this.nodes.tensor(ELEMENT_TYPE.float32, [size, size], new Uint8Array(data.buffer));
    return this.elemType === ELEMENT_TYPE.float32 ? matrix : this.cast(matrix, this.elemType);
  }

  /** A term as a tensor. */
  term(value: Term): string {
    return typeof value === 'string' ? value : this.scalar(value);
  }

  /** A scalar of an element type; by default that of the arithmetic. */
  scalar(value: number, elemType: number = this.elemType): string {
    const key = `${elemType} ${Object.is(value, -0) ? '-0' : value}`;
    let name = this.#scalars.get(key);
    if (name === undefined) this.#scalars.set(key, (name = this.#writeScalar(value, elemType)));
    return name;
  }

  #writeScalar(value: number, elemType: number): string {
    const { nodes } = this;
    if (elemType === ELEMENT_TYPE.int64) return nodes.integers(value);
    const isDouble = elemType === ELEMENT_TYPE.float64;
    const data = new Uint8Array((isDouble ? Float64Array.of(value) : Float32Array.of(value)).buffer);
    const written = nodes.tensor(isDouble ? elemType : ELEMENT_TYPE.float32, [], data);
    return isDouble || elemType === ELEMENT_TYPE.float32 ? written : this.cast(written, elemType);
  }

  #withAxes(opType: string, input: string, axes: readonly number[]): string {
    return this.nodes.opset >= AXES_INPUT
      ? this.nodes.add(opType, [input, this.ints(axes)])
      : this.nodes.add(opType, [input], { axes });
  }

  #binary(opType: string, a: Term, b: Term): string {
    return this.nodes.add(opType, [this.term(a), this.term(b)]);
  }
}
