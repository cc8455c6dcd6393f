/**
 * A graph as it was before it was quantised or converted: what only carries a value in another form is seen through. Names are resolved in
 * this view, so that the rules for float files are the only ones.
 */
import { oncePer } from '../../../base/once-per.js';
import type { Graph, Value } from '../graph.js';
import { isFloatCast, isQuantizing } from './forms.js';
import type { FloatView, Held } from './view.js';
import { ViewDraft } from './view-draft.js';

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
