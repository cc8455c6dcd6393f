/** A node in the backward pass: what it read and gave, the gradients of its outputs, and the arithmetic to continue with. */
import { TapirError } from '../../../base/errors.js';
import type { Attribute } from '../../../onnx/file/scan/attributes.js';
import { ELEMENT_TYPE, type Dim } from '../../../onnx/file/wire/schema.js';
import type { Node, Value } from '../../../onnx/graph/graph.js';
import type { FreshNames } from '../../../onnx/graph/rewrite/fresh-names.js';
import { NodeBuilder } from '../../../onnx/graph/rewrite/node-builder.js';
import { describeNode } from '../../../onnx/graph/rewrite/prune.js';
import { axesFrom, GraphMath, type Scalars } from './graph-math.js';

/** What gradients need to know about the tensors of a graph. The room is pure: its callers supply the facts. */
export interface GradientFacts {
  /** Sizes. One symbolic name stands for one size everywhere; null is an open size. undefined if the rank is unknown. */
  readonly dimsOf: (value: Value) => readonly Dim[] | undefined;
  readonly elemTypeOf: (value: Value) => number | undefined;
  /** The elements of a small integer initializer or Constant; undefined for all other values. */
  readonly integersOf: (value: Value) => readonly number[] | undefined;
  readonly attributesOf: (node: Node) => ReadonlyMap<string, Attribute>;
}

/** Computes the gradient of an input; called only if it is needed. Gives the tensor that holds it, or undefined where it is zero. */
export type InputGradient = () => string | undefined;

/** How the gradients of an operator's inputs, by position, follow from those of its outputs. An input without an entry cannot be differentiated. */
export type Rule = (node: Backward) => readonly (InputGradient | undefined)[];

/** Rules by operator. */
export type Rules = Readonly<Record<string, Rule>>;

/** What all nodes of a walk share. */
export interface Walk {
  readonly facts: GradientFacts;
  readonly names: FreshNames;
  readonly scalars: Scalars;
  readonly opset: number;
}

/** Since this operator set, reductions take an empty list of axes that is known only when the graph runs. */
const OPEN_AXES = 13;

/** One node of the graph. Gradients have exactly the dims of the tensors that they belong to. */
export class Backward extends GraphMath {
  readonly node: Node;
  readonly #walk: Walk;
  readonly #gradients: readonly (string | undefined)[];

  /** @param gradients - The gradients of the outputs; undefined where none arrived, which counts as zero. */
  constructor(walk: Walk, node: Node, elemType: number, gradients: readonly (string | undefined)[]) {
    super(
      new NodeBuilder(walk.names, 'gradient', walk.opset, (reason) => unsupported(node, reason)),
      elemType,
      walk.scalars,
    );
    this.node = node;
    this.#walk = walk;
    this.#gradients = gradients;
  }

  /** The operator set of the model. */
  get opset(): number {
    return this.#walk.opset;
  }

  /** The first input. */
  get x(): string {
    return this.input(0);
  }

  /** The first output. */
  get y(): string {
    return this.output(0).name;
  }

  /** The gradient of the first output. */
  get dy(): string {
    return this.gradientOf(0);
  }

  /** Whether an input is there. */
  has(position: number): boolean {
    return this.node.inputs[position] !== undefined;
  }

  /** The tensor of an input. */
  input(position: number): string {
    return this.value(position).name;
  }

  value(position: number): Value {
    return this.node.inputs[position] ?? this.refuse(`it has no input ${position}`);
  }

  output(position: number): Value {
    return this.node.outputs[position] ?? this.refuse(`it has no output ${position}`);
  }

  /** The gradient of an output; zeros if none arrived. */
  gradientOf(position: number): string {
    const output = this.output(position);
    return this.#gradients[position] ?? this.expand(0, this.sizes(output.name));
  }

  /** Whether a gradient arrived at an output. */
  hasGradient(position: number): boolean {
    return this.#gradients[position] !== undefined;
  }

  /** Refuses a node whose further outputs have gradients: the rule knows the first one only. */
  expectOneGradient(): void {
    if (this.#gradients.some((gradient, k) => k > 0 && gradient !== undefined))
      this.refuse('only its first output can be differentiated');
  }

  /** The sizes of a value; its rank must be known. */
  dims(value: Value): readonly Dim[] {
    return this.#walk.facts.dimsOf(value) ?? this.refuse(`the rank of "${value.name}" is unknown`);
  }

  rank(value: Value): number {
    return this.dims(value).length;
  }

  elemTypeOf(value: Value): number | undefined {
    return this.#walk.facts.elemTypeOf(value);
  }

  /** The sizes of a value as a tensor: a constant where all are known. */
  shape(value: Value): string {
    const dims = this.#walk.facts.dimsOf(value);
    return dims?.every((size) => typeof size === 'number') === true
      ? this.ints(dims as readonly number[])
      : this.sizes(value.name);
  }

  /** The size of an axis as a tensor of one element. */
  sizeAt(value: Value, axis: number): string {
    return this.slice(this.shape(value), [0], [axis], [axis + 1]);
  }

  /** The number of channels of a value, which must be known. */
  channels(value: Value): number {
    const size = this.dims(value)[1];
    return typeof size === 'number' ? size : this.refuse('the number of its channels is open');
  }

  /** A tensor with the elements of a value, under the value's dims. */
  reshapeLike(input: string, value: Value): string {
    const dims = this.#walk.facts.dimsOf(value);
    const isOpen = (size: Dim): boolean => typeof size !== 'number';
    if (dims && dims.filter(isOpen).length === 1 && !dims.includes(0))
      return this.reshape(
        input,
        dims.map((size) => (typeof size === 'number' ? size : -1)),
      );
    return this.reshape(input, this.shape(value));
  }

  int(name: string, otherwise: number): number {
    return this.#attribute(name)?.int ?? otherwise;
  }

  float(name: string, otherwise: number): number {
    return this.#attribute(name)?.float ?? otherwise;
  }

  text(name: string, otherwise: string): string {
    return this.#attribute(name)?.text ?? otherwise;
  }

  /** A list of integers; undefined if the node does not have it. */
  list(name: string): readonly number[] | undefined {
    return this.#attribute(name)?.ints;
  }

  hasAttribute(name: string): boolean {
    return this.#attribute(name) !== undefined;
  }

  /** The elements of an input that is a constant list of integers. */
  constant(position: number): readonly number[] | undefined {
    const value = this.node.inputs[position];
    return value && this.#walk.facts.integersOf(value);
  }

  /** The axis of the first input that an attribute names, counted from the front. */
  axis(otherwise: number): number {
    return this.wrap(this.int('axis', otherwise), this.rank(this.value(0)));
  }

  wrap(axis: number, rank: number): number {
    return axis < 0 ? axis + rank : axis;
  }

  /** Undoes broadcasting: sums a gradient of dims `from` over the axes along which `to` was repeated. */
  fit(gradient: string, from: readonly Dim[], to: Value): string {
    const dims = this.dims(to);
    const added = from.length - dims.length;
    const axes = axesFrom(0, added);
    let isOpen = false;
    for (const [axis, size] of dims.entries()) {
      const whole = from[added + axis]!;
      if (whole === 1 || (size !== null && size === whole)) continue;
      if (size === 1) axes.push(added + axis);
      else if (typeof size !== 'number') isOpen = true;
    }
    if (isOpen) return this.#fitOpen(gradient, added, to);
    if (axes.length === 0) return gradient;
    const isOnlyAdded = axes.length === added;
    const summed = this.sum(gradient, axes, !isOnlyAdded);
    return isOnlyAdded || added === 0 ? summed : this.reshapeLike(summed, to);
  }

  /** The same where a size is known only when the graph runs: the axes to sum over are those of size 1. */
  #fitOpen(gradient: string, added: number, to: Value): string {
    if (this.opset < OPEN_AXES)
      this.refuse(
        `whether "${to.name}" is broadcast is known only when the graph runs, which needs operator set ${OPEN_AXES}; convert the model first (onnx.version_converter)`,
      );
    const sizes = this.sizes(to.name);
    const aligned =
      added === 0 ? sizes : this.concat([this.ints(Array.from({ length: added }, () => 1)), sizes], 0);
    const ones = this.nodes.add('Equal', [aligned, this.scalar(1, ELEMENT_TYPE.int64)]);
    const axes = this.reshape(this.one('NonZero', ones), [-1]);
    const summed = this.nodes.add('ReduceSum', [gradient, axes], { noop_with_empty_axes: 1 });
    return added === 0 ? summed : this.reshape(summed, sizes);
  }

  /** Ends the walk: no gradient can be computed at this node. */
  refuse(reason: string): never {
    throw unsupported(this.node, reason);
  }

  #attribute(name: string): Attribute | undefined {
    return this.#walk.facts.attributesOf(this.node).get(name);
  }
}

/** The error for a node through which no gradient can be taken. It names the nearest tensor after it, where the backward pass can end. */
export function unsupported(node: Node, reason: string): TapirError<'GRADIENT_UNSUPPORTED'> {
  const operator = node.domain === '' ? node.opType : `${node.domain}.${node.opType}`;
  const where = describeNode(node);
  const cut = node.outputs.find((output) => output !== undefined)?.name ?? null;
  const remedy = cut === null ? '' : `; the nearest place that has a gradient is "${cut}" (withRespectTo)`;
  return new TapirError(
    'GRADIENT_UNSUPPORTED',
    `no gradient can be taken through ${operator} "${where}": ${reason}${remedy}`,
    { details: { operator, node: where, reason, cut } },
  );
}
