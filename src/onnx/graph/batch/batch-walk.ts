/** State of a walk through a graph whose batch is made dynamic: where the batch is in each tensor. */
import type { Node, Value } from '../graph.js';
import type { Attribute } from '../../file/scan/attributes.js';
import { opsetOf } from '../operator-sets.js';
import { isSameSplit, type BatchAxis } from './batch-axis.js';
import type { BatchEdits } from './batch-edits.js';
import { describeNode, type Cut } from '../rewrite/prune.js';

/** Facts about the cut graph at its exported batch that the rewrite needs. */
export interface BatchFacts {
  /** Concrete sizes of a tensor at the exported batch; undefined if unknown. */
  readonly dimsOf: (value: Value) => readonly number[] | undefined;
  readonly elemTypeOf: (value: Value) => number | undefined;
  /** The elements of a small constant integer tensor (Identity chains followed); undefined if it is not constant. */
  readonly integersOf: (value: Value) => readonly number[] | undefined;
  readonly attributesOf: (node: Node) => ReadonlyMap<string, Attribute>;
}

/** An element of a tensor of sizes: a constant, a number that grows with the batch, or another computed number. */
export type SizeEntry = number | 'batch' | null;

/** Ends the walk with the reason why a graph cannot take any batch. */
export class BatchRefusal extends Error {}

/** Ends the walk at a node. */
export function refuse(node: Node, why: string): never {
  throw new BatchRefusal(`${node.opType} "${describeNode(node)}" ${why}`);
}

export function showSizes(dims: readonly number[]): string {
  return `[${dims.join(', ')}]`;
}

/** Batch axes and size lists, by value. */
export class BatchWalk {
  readonly facts: BatchFacts;
  readonly edits: BatchEdits;
  readonly batch: number;
  readonly opset: number;
  /** One line per change. */
  readonly changed: string[] = [];
  readonly #cut: Cut;
  readonly #outputs: ReadonlySet<Value>;
  readonly #fed: ReadonlySet<Value>;
  readonly #axes = new Map<Value, BatchAxis>();
  readonly #entries = new Map<Value, readonly SizeEntry[]>();
  readonly #sized = new Set<Value>();

  constructor(cut: Cut, facts: BatchFacts, edits: BatchEdits, batch: number) {
    this.facts = facts;
    this.edits = edits;
    this.batch = batch;
    this.opset = opsetOf(cut.graph);
    this.#cut = cut;
    this.#outputs = new Set(cut.outputs.map((output) => output.value));
    this.#fed = new Set(cut.inputs);
  }

  /** The values that depend on the batch. */
  get axes(): ReadonlyMap<Value, BatchAxis> {
    return this.#axes;
  }

  axisOf(value: Value | undefined): BatchAxis | undefined {
    return value && this.#axes.get(value);
  }

  start(input: Value): void {
    this.#axes.set(input, { axis: 0, outer: 1, inner: 1 });
  }

  /** Positions of a node's inputs that depend on the batch. */
  batchedInputs(node: Node): number[] {
    return node.inputs.flatMap((value, position) => (this.axisOf(value) ? [position] : []));
  }

  /** The sizes of an input or output of a node. */
  dimsOf(node: Node, value: Value | undefined): readonly number[] {
    const dims = value && this.facts.dimsOf(value);
    return dims ?? refuse(node, `uses "${value?.name ?? ''}", whose sizes are unknown`);
  }

  /** Whether a kept node or an output of the model needs an output of a node. */
  isUsed(value: Value | undefined): value is Value {
    return (
      value !== undefined && (this.#outputs.has(value) || value.uses.some((use) => this.#cut.nodes.has(use)))
    );
  }

  /** Records where the batch is in an output of a node, after a check against its sizes. */
  setAxis(node: Node, value: Value | undefined, at: BatchAxis): void {
    if (!value || this.#fed.has(value)) return;
    const isUsed = this.isUsed(value);
    const dims = isUsed ? this.dimsOf(node, value) : this.facts.dimsOf(value);
    if (dims?.[at.axis] === at.outer * at.inner * this.batch) this.#axes.set(value, at);
    else if (dims && isUsed) refuse(node, `gives ${showSizes(dims)}, in which the batch was not found`);
  }

  int(node: Node, name: string): number | undefined {
    return this.facts.attributesOf(node).get(name)?.int;
  }

  ints(node: Node, name: string): readonly number[] | undefined {
    return this.facts.attributesOf(node).get(name)?.ints;
  }

  integers(node: Node, position: number): readonly number[] | undefined {
    const value = node.inputs[position];
    return value && this.facts.integersOf(value);
  }

  /** The elements of a tensor of sizes, as far as they are known. */
  entriesOf(value: Value | undefined): readonly SizeEntry[] | undefined {
    return value && (this.facts.integersOf(value) ?? this.#entries.get(value));
  }

  setEntries(value: Value | undefined, entries: readonly SizeEntry[]): void {
    if (value) this.#entries.set(value, entries);
  }

  /** Whether a value is computed from sizes of tensors that hold the batch. */
  isSized(value: Value): boolean {
    return this.#sized.has(value);
  }

  setSized(node: Node): void {
    for (const output of node.outputs) if (output) this.#sized.add(output);
  }

  note(node: Node, text: string): void {
    this.changed.push(`${node.opType} "${describeNode(node)}": ${text}`);
  }

  /** Repeats an operand with one value for all samples along an axis. */
  repeat(node: Node, position: number, at: BatchAxis): void {
    const dims = this.dimsOf(node, node.inputs[position]);
    const { axis, outer, inner } = at;
    if (outer !== 1) refuse(node, `reads ${showSizes(dims)}, which does not depend on the batch but must`);
    this.edits.repeat(node, position, axis, dims.length, this.batch > 1 ? inner : undefined);
    this.note(node, `${showSizes(dims)} of "${node.inputs[position]!.name}" is repeated by the batch`);
  }

  /** Gives all operands the batch at one axis, for an operator that does not broadcast. */
  alignExactly(node: Node, positions: readonly number[], at: BatchAxis): void {
    for (const position of positions) {
      const value = node.inputs[position];
      if (!value) continue;
      const own = this.axisOf(value);
      if (own && (own.axis !== at.axis || !isSameSplit(own, at)))
        refuse(node, 'reads tensors with the batch in different places');
      if (own) continue;
      const size = this.dimsOf(node, value)[at.axis];
      if (size !== at.outer * at.inner * this.batch) refuse(node, `reads "${value.name}" without a batch`);
      this.repeat(node, position, at);
    }
  }

  /** Aligns operands at the right, as broadcasting does. Returns the place of the batch, counted from the right, and the parts of its size. */
  alignBroadcast(node: Node, positions: readonly number[]): { fromRight: number; split: BatchAxis } {
    const operands = positions.flatMap((position) => {
      const value = node.inputs[position];
      return value ? [{ position, at: this.axisOf(value), dims: this.dimsOf(node, value) }] : [];
    });
    const first = operands.find(({ at }) => at !== undefined)!;
    const split = first.at!;
    const fromRight = first.dims.length - split.axis;
    const full = split.outer * split.inner * this.batch;
    for (const { position, at, dims } of operands) {
      const axis = dims.length - fromRight;
      if (at && (at.axis !== axis || !isSameSplit(at, split)))
        refuse(node, 'reads tensors with the batch in different places');
      const size = dims[axis];
      if (at || size === undefined || size === 1) continue;
      if (size !== full) refuse(node, `reads ${showSizes(dims)} where the batch would meet it`);
      this.repeat(node, position, { ...split, axis });
    }
    return { fromRight, split };
  }
}
