/** The elements of a row: sign, name, marks, shape, cost, and the box to pick it. What it says is its text. */
import { make } from '../../../../base/html/browser/elements.js';
import { formatCount } from '../../../../base/html/numbers.js';
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
  const { metric, isChosen, isPicked, isFaded } = state;
  const isBox = id < 0;
  const [cost, total] = [graph.costOf(id, metric), graph.costOf(ROOT, metric)];
  const share = total === 0 ? 0 : cost / total;
  const dims = graph.innerDimsOf(id);
  const [high, wide] = signOf(dims) ?? [];
  const classes = ['row', isBox ? 'box' : 'leaf', isOpen && 'open', isPicked && 'picked', isFaded && 'faded'];
  return make(
    'div',
    classes.filter(Boolean).join(' '),
    {
      id: `row${id}`,
      role: 'treeitem',
      'aria-level': depth + 1,
      'aria-posinset': position,
      'aria-setsize': siblings,
      'aria-selected': isChosen,
      'aria-expanded': isBox ? isOpen : undefined,
      '--x': `${x}px`,
      '--y': `${y}px`,
      '--right': `${6 * (depth + 1)}px`,
      // Small shares stay visible.
      '--heat': `${(100 * Math.sqrt(share)).toFixed(0)}%`,
    },
    make('span', 'glyph'),
    makeName(graph, id),
    listMarks(graph, row).map(([kind, text, title]) => make('span', `badge ${kind}`, { title }, text)),
    make('span', 'op small clip', kindOf(graph, id)),
    make(
      'span',
      'shape',
      make(
        'span',
        'tensor-place',
        make('span', 'tensor', { hidden: !high, '--high': `${high}px`, '--wide': `${wide}px` }),
      ),
      make('span', 'dims clip', formatDims(dims)),
    ),
    make(
      'span',
      'cost tiny',
      { title: cost === 0 ? '' : `${formatShare(share)} of the model` },
      make('span', 'amount', formatCost(cost, metric)),
      make('span', 'bar', { '--share': `${(100 * share).toFixed(2)}%` }),
    ),
    make('span', graph.requestOf(id) === undefined ? 'pick none' : 'pick', {
      title: 'Return this',
      'aria-hidden': true,
    }),
  );
}

/** The whole name is there; what the box around shows is there for screen readers only. */
function makeName(graph: ModelGraph, id: Id): HTMLElement {
  const title = graph.nameOf(id);
  const isRun = id < 0 && graph.model.boxes[-1 - id]!.kind === 'run';
  const [before, last] = isRun ? ['', title] : splitName(title, graph.nameOf(graph.parentOf(id)!));
  const around = title.slice(0, title.length - before.length - last.length);
  return make(
    'span',
    'name',
    { title },
    make('span', 'visually-hidden', around),
    make('span', 'before muted clip', before),
    make('bdi', 'last clip', last),
  );
}

/** What is special about a row: a kind, a word, and why. */
function listMarks(graph: ModelGraph, { id, isOpen }: Row): (readonly [string, string, string])[] {
  if (id >= 0 && !graph.isNode(id)) return [];
  if (id >= 0)
    return graph.model.nodes[id]!.marks.map((mark) => {
      const [text, why] = MARKS[mark]!;
      return [mark, text, why];
    });
  const { refusal } = graph.model.boxes[-1 - id]!;
  const marks: [string, string, string][] = refusal === null ? [] : [['refused', 'refused', refusal]];
  if (!isOpen && hasSkip(graph, id)) marks.push(['skips', 'skip', 'A connection skips nodes in it.']);
  return marks;
}

function kindOf(graph: ModelGraph, id: Id): string {
  if (id >= 0) return graph.kindOf(id);
  const count = graph.nodesIn(id).filter((node) => graph.model.nodes[node]!.role === 'data').length;
  const { about } = graph.model.boxes[-1 - id]!;
  return `${formatCount(count)} ${count === 1 ? 'node' : 'nodes'}${about && ': '}${about}`;
}

function hasSkip(graph: ModelGraph, box: Id): boolean {
  const count = graph.childrenOf(box, false).length;
  return graph.flowsOf(box, false).some(({ from, to }) => to > from + 1 && to < count);
}
