/**
 * A graph as it was before it was quantised or converted: what only carries a value in another form is seen through. Names are resolved in
 * this view, so that the rules for float files are the only ones.
 */
import { oncePer } from '../../../base/once-per.js';
import type { Graph, Node, Value } from '../graph.js';
import { isFloatCast, isQuantizing } from './forms.js';
import { ViewDraft } from './view-draft.js';

/** Scale and zero point of whole numbers that stand for others, one for the whole tensor. */
export interface Levels {
  readonly scale: Value;
  readonly zero: Value | undefined;
}

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

const NONE: ReadonlyMap<never, never> = new Map<never, never>();
const itself = (value: Value): Held => ({ value });
/** Views by their graphs, which are their own views. */
const views = new WeakMap<Graph, FloatView>();

/** The view of a graph. A graph without other forms is its own. */
export const floatView: (graph: Graph) => FloatView = oncePer((graph) => {
  const known = views.get(graph);
  const isPlain = !graph.nodes.some((node) => isQuantizing(node) || isFloatCast(node));
  if (known || isPlain)
    return {
      graph,
      heldOf: itself,
      nodeOf: (node) => node,
      taken: NONE,
      lost: known?.lost ?? NONE,
      isRewritten: known !== undefined,
    };
  const view = new ViewDraft(graph).finish();
  views.set(view.graph, view);
  return view;
});
