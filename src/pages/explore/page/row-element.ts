/** The elements of a row: sign, name, marks, shape, cost, and the box to pick it. */
import { printable } from '../../../base/printable.js';
import { make } from '../../../html/browser/elements.js';
import { formatCount } from '../../../html/numbers.js';
import { formatCost, formatDims, formatShare, MARKS, signOf, splitName } from './format.js';
import { ROOT, type Id, type Metric, type ModelGraph } from './graph.js';
import type { Row } from './rows.js';

/** What a row looks like besides its place. */
export interface RowState {
  readonly metric: Metric;
  readonly isChosen: boolean;
  readonly isPicked: boolean;
  /** Whether the cut leaves it out. */
  readonly isFaded: boolean;
}

/** Makes a row of the tree. */
export function makeRow(graph: ModelGraph, row: Row, state: RowState): HTMLElement {
  const { id, depth, isOpen, x, y, position, siblings } = row;
  const box = id < 0 ? graph.model.boxes[-1 - id]! : undefined;
  const share = shareOf(graph, id, state.metric);
  const element = make('div', `row ${box ? 'box' : 'leaf'}`);
  element.append(
    makeGlyph(share),
    makeName(graph, id),
    ...makeMarks(graph, row),
    makeKind(graph, id),
    makeShape(graph, id),
    makeCost(graph, id, share, state.metric),
    makePick(graph, id),
  );
  element.id = `row${id}`;
  Object.assign(element.style, { top: `${y}px`, left: `${x}px`, right: `${6 * (depth + 1)}px` });
  const attributes: Readonly<Record<string, string | number | boolean>> = {
    role: 'treeitem',
    'aria-label': labelOf(graph, id),
    'aria-level': depth + 1,
    'aria-posinset': position,
    'aria-setsize': siblings,
    'aria-selected': state.isChosen,
    ...(box ? { 'aria-expanded': isOpen } : {}),
  };
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.classList.toggle('open', isOpen);
  element.classList.toggle('picked', state.isPicked);
  element.classList.toggle('faded', state.isFaded);
  return element;
}

function shareOf(graph: ModelGraph, id: Id, metric: Metric): number {
  const total = graph.costOf(ROOT, metric);
  return total === 0 ? 0 : graph.costOf(id, metric) / total;
}

/** How hot a share is shown: small shares stay visible. */
function heatOf(share: number): string {
  return `${(100 * Math.sqrt(share)).toFixed(0)}%`;
}

function makeGlyph(share: number): HTMLElement {
  const glyph = make('span', 'glyph');
  glyph.style.setProperty('--heat', heatOf(share));
  return glyph;
}

function makeName(graph: ModelGraph, id: Id): HTMLElement {
  const full = graph.nameOf(id);
  const isRun = id < 0 && graph.model.boxes[-1 - id]!.kind === 'run';
  const [before, last] = isRun ? ['', full] : splitName(full, graph.nameOf(graph.parentOf(id)!));
  const name = make('span', 'name', make('span', 'before', before), make('bdi', 'last', last));
  name.title = printable(full);
  return name;
}

function makeMarks(graph: ModelGraph, { id, isOpen }: Row): HTMLElement[] {
  const makeMark = (kind: string, text: string, why: string): HTMLElement => {
    const mark = make('span', `mark ${kind}`, text);
    mark.title = printable(why);
    return mark;
  };
  if (id >= 0) return graph.model.nodes[id]!.marks.map((mark) => makeMark(mark, ...MARKS[mark]!));
  const { refusal } = graph.model.boxes[-1 - id]!;
  return [
    ...(refusal === null ? [] : [makeMark('refused', 'refused', refusal)]),
    ...(!isOpen && hasSkip(graph, id) ? [makeMark('skips', 'skip', 'A connection skips nodes in it.')] : []),
  ];
}

function makeKind(graph: ModelGraph, id: Id): HTMLElement {
  if (id >= 0) return make('span', 'op', graph.model.nodes[id]!.op);
  const count = graph.nodesIn(id).filter((node) => graph.model.nodes[node]!.role === 'data').length;
  const { about } = graph.model.boxes[-1 - id]!;
  const nodes = `${formatCount(count)} ${count === 1 ? 'node' : 'nodes'}`;
  return make('span', 'op', about === '' ? nodes : `${nodes}: ${about}`);
}

function makeShape(graph: ModelGraph, id: Id): HTMLElement {
  const dims = graph.innerDimsOf(id);
  const sizes = signOf(dims);
  const sign = make('span', 'tensor');
  if (sizes) Object.assign(sign.style, { height: `${sizes[0]}px`, width: `${sizes[1]}px` });
  else sign.style.visibility = 'hidden';
  return make('span', 'shape', make('span', 'tensor-place', sign), make('span', 'dims', formatDims(dims)));
}

function makeCost(graph: ModelGraph, id: Id, share: number, metric: Metric): HTMLElement {
  const cost = graph.costOf(id, metric);
  const bar = make('span', 'bar');
  bar.style.setProperty('--share', `${(100 * share).toFixed(2)}%`);
  bar.style.setProperty('--heat', heatOf(share));
  const element = make('span', 'cost', make('span', 'amount', formatCost(cost, metric)), bar);
  element.title = cost === 0 ? '' : `${formatShare(share)} of the model`;
  return element;
}

function makePick(graph: ModelGraph, id: Id): HTMLElement {
  const pick = make('span', 'pick');
  pick.title = 'Return this';
  pick.setAttribute('aria-hidden', 'true');
  if (graph.requestOf(id) === undefined) pick.classList.add('none');
  return pick;
}

/** What a screen reader says of a row. */
function labelOf(graph: ModelGraph, id: Id): string {
  const parts = [
    graph.nameOf(id),
    id >= 0 ? graph.model.nodes[id]!.op : '',
    formatDims(graph.innerDimsOf(id)),
  ];
  return parts.filter((part) => part !== '').join(', ');
}

function hasSkip(graph: ModelGraph, box: Id): boolean {
  const count = graph.childrenOf(box, false).length;
  return graph.flowsOf(box, false).some(({ from, to }) => to > from + 1 && to < count);
}
