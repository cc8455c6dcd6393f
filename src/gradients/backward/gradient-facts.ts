/** What gradients need to know about the tensors of a graph. The room is pure: its callers supply the facts. */
import type { Attribute } from '../../onnx/scan/attributes.js';
import type { Dim } from '../../onnx/wire/schema.js';
import type { Node, Value } from '../../graph/graph.js';

export interface GradientFacts {
  /** Sizes. One symbolic name stands for one size everywhere; null is an open size. undefined if the rank is unknown. */
  readonly dimsOf: (value: Value) => readonly Dim[] | undefined;
  readonly elemTypeOf: (value: Value) => number | undefined;
  /** The elements of a small integer initializer or Constant; undefined for all other values. */
  readonly integersOf: (value: Value) => readonly number[] | undefined;
  readonly attributesOf: (node: Node) => ReadonlyMap<string, Attribute>;
}
