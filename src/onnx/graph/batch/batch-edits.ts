/** The changes that make a batch dynamic: new inputs for kept nodes, and the added nodes and constants that compute them. */
import type { Node, Value } from '../graph.js';
import { ELEMENT_TYPE } from '../../file/wire/schema.js';
import type { NewNode } from '../../file/wire/write-model.js';
import { opsetOf } from '../operator-sets.js';
import { NodeBuilder } from '../rewrite/node-builder.js';
import { RewriteChanges } from '../rewrite/rewrite-changes.js';
import type { Rewrite } from '../rewrite/rewrite.js';

/** Collects the changes of one rewrite. Constants may be shared, so they stay unchanged: nodes get new ones instead. */
export class BatchEdits {
  readonly #rewrite: Rewrite;
  readonly #input: Value;
  readonly #changes: RewriteChanges;
  readonly #front: NewNode[];
  #batchSize: string | undefined;

  /** @param input - A fed tensor whose first axis is the batch. */
  constructor(rewrite: Rewrite, input: Value) {
    this.#rewrite = rewrite;
    this.#input = input;
    this.#changes = new RewriteChanges(rewrite);
    this.#front = [...rewrite.front];
  }

  /** The rewrite with the changes. */
  get rewrite(): Rewrite {
    return { ...this.#changes.rewrite, front: this.#front };
  }

  /** Replaces a node's list of integers. */
  setIntegers(node: Node, position: number, values: readonly number[], elemType?: number): void {
    this.#edit(node, position, (nodes) =>
      elemType === ELEMENT_TYPE.int32
        ? nodes.tensor(ELEMENT_TYPE.int32, [values.length], Int32Array.from(values))
        : nodes.integers(values),
    );
  }

  /** Replaces one entry of a node's list of integers by a number, or by the size that an axis of a tensor has at run time. */
  setEntry(
    node: Node,
    position: number,
    index: number,
    entry: number | { readonly sizeOf: Value; readonly axis: number },
  ): void {
    const list = node.inputs[position]!.name;
    this.#edit(node, position, (nodes) => {
      const head = index === 0 ? [] : [nodes.sliceFrom(list, 0, 0, index)];
      const middle =
        typeof entry === 'number'
          ? nodes.integers([entry])
          : nodes.sliceFrom(nodes.add('Shape', [entry.sizeOf.name]), 0, entry.axis, entry.axis + 1);
      // The tail is empty if the entry is the last one.
      const tail = nodes.sliceFrom(list, 0, index + 1);
      return nodes.add('Concat', [...head, middle, tail], { axis: 0 });
    });
  }

  /** Computes a node's indices for every sample: those of the first sample, shifted by one step per sample. */
  setOffsets(node: Node, position: number, { first, dims, step }: SampleIndices): void {
    const batch = this.#readBatchSize();
    this.#edit(node, position, (nodes) => {
      const count = nodes.add('ReduceMax', [batch], { keepdims: 0 });
      const samples = nodes.add('Range', [nodes.integers(0), count, nodes.integers(1)]);
      const column = nodes.integers([-1, ...dims.slice(1).map(() => 1)]);
      const starts = nodes.add('Reshape', [nodes.add('Mul', [samples, nodes.integers(step)]), column]);
      const offsets = nodes.tensor(ELEMENT_TYPE.int64, dims, BigInt64Array.from(first, BigInt));
      return nodes.add('Add', [starts, offsets]);
    });
  }

  /**
   * Repeats an operand that does not depend on the batch once per sample.
   *
   * @param first - If it holds several samples already, the size of the first one along the axis: only that is repeated.
   */
  repeat(node: Node, position: number, axis: number, rank: number, first: number | undefined): void {
    const batch = this.#readBatchSize();
    this.#edit(node, position, (nodes) => {
      const { name } = node.inputs[position]!;
      const one = first === undefined ? name : nodes.sliceFrom(name, axis, 0, first);
      const ones = (count: number): string[] =>
        count === 0 ? [] : [nodes.integers(Array.from({ length: count }, () => 1))];
      const parts = [...ones(axis), batch, ...ones(rank - axis - 1)];
      return nodes.add('Tile', [one, parts.length === 1 ? batch : nodes.add('Concat', parts, { axis: 0 })]);
    });
  }

  /** The tensor that holds the batch size as a list of one number. The graph computes it once, before all other nodes. */
  #readBatchSize(): string {
    if (this.#batchSize !== undefined) return this.#batchSize;
    const nodes = this.#builder();
    this.#batchSize = nodes.sliceFrom(nodes.add('Shape', [this.#input.name]), 0, 0, 1);
    this.#front.push(...nodes.nodes);
    this.#changes.tensors.push(...nodes.tensors);
    return this.#batchSize;
  }

  #builder(): NodeBuilder {
    return new NodeBuilder(this.#rewrite.names, 'batch', opsetOf(this.#rewrite.cut.graph));
  }

  #edit(node: Node, position: number, build: (nodes: NodeBuilder) => string): void {
    const nodes = this.#builder();
    const edit = this.#changes.editOf(node);
    edit.inputs.set(position, build(nodes));
    edit.before.push(...nodes.nodes);
    this.#changes.tensors.push(...nodes.tensors);
  }
}

interface SampleIndices {
  /** Indices of the first sample. */
  readonly first: readonly number[];
  /** Sizes of the tensor of indices; the first size is 1. */
  readonly dims: readonly number[];
  /** The number of elements per sample. */
  readonly step: number;
}
