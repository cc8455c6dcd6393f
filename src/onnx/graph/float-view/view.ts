/** What a float view is. */
import type { Graph, Levels, Node, Value } from '../graph.js';

/** What the file has of a value of the view. */
export interface Held {
  readonly value: Value;
  /** How numbers are made of it, if it is whole numbers. */
  readonly levels?: Levels | undefined;
}

/** An activation that a quantizer dropped, because its integers end where the activation does. */
export interface LostActivation {
  /** The node of the view that stands for it. */
  readonly after: Node;
  /** What the exporter called it; `undefined` if only the range of the integers tells of it, so that there may have been none. */
  readonly name: string | undefined;
}

export interface FloatView {
  /** Nodes and values without forms. Values have the names that they had before, where tensors still tell those. */
  readonly graph: Graph;
  /** What the file has of a value of the view; `undefined` if it has none, or only numbers in an order of a machine's own. */
  readonly heldOf: (value: Value) => Held | undefined;
  /** The node of the view that stands for one of the file. */
  readonly nodeOf: (node: Node) => Node | undefined;
  /** Tensors that were given to the node before a dropped activation, with the value that they held before. */
  readonly taken: ReadonlyMap<Value, Value>;
  /** Whether it is that of another graph. */
  readonly isRewritten: boolean;
  /** Dropped activations, by the node of the view before them. */
  readonly lost: ReadonlyMap<Node, LostActivation>;
}
