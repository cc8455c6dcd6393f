/** The card of the chosen module or node: its name, shape, cost, marks and neighbours. */
import { make, makeChip, makeFact, makeHead } from '../../../../base/html/browser/elements.js';
import { formatBytes, formatCount, formatValue } from '../../../../base/html/numbers.js';
import type { NodeDetail, StatedDims, WeightDetail } from '../structure/model-structure.js';
import { formatCost, formatShare, MARKS, METRIC_NAMES } from './format.js';
import { ROOT, type Id, type ModelGraph } from './graph.js';
import { neighboursOf } from './neighbours.js';
import type { Source } from './source.js';

/** What the card can do. */
export interface NodeActions {
  readonly onPick: (id: Id) => void;
  readonly onGo: (id: Id) => void;
  readonly isPicked: (id: Id) => boolean;
  readonly source: Source;
}

const MOST_NEIGHBOURS = 5;

/** Shows an id. */
export function showNode(
  card: HTMLElement,
  graph: ModelGraph,
  id: Id | undefined,
  actions: NodeActions,
): void {
  if (id === undefined) {
    card.replaceChildren(
      make('p', 'hint', 'Choose a module or a node to see what it gives and what it costs.'),
    );
    return;
  }
  const { onPick, isPicked } = actions;
  const request = graph.requestOf(id);
  const refusal = id < 0 ? graph.model.boxes[-1 - id]!.refusal : null;
  const marks = graph.isNode(id) ? graph.model.nodes[id]!.marks.map((mark) => MARKS[mark]!) : [];
  const pick =
    request === undefined
      ? undefined
      : make(
          'button',
          'pick-button',
          { 'aria-pressed': isPicked(id), click: () => onPick(id) },
          isPicked(id) ? 'Picked' : 'Pick',
        );
  card.replaceChildren(
    makeHead(kindOf(graph, id), breakable(graph.nameOf(id)), pick),
    ...marks.map(([label, why]) => make('p', 'note', make('strong', '', `${label}: `), why)),
    ...(refusal === null ? [] : [make('p', 'note bad', `This name is refused: ${refusal}.`)]),
    makeTable(graph, id, request),
    ...makeNeighbours(graph, id, actions),
    ...(graph.isNode(id) ? [makeDetail(actions.source, id)] : []),
  );
}

/** What the file holds for a node; it fills itself. */
function makeDetail(source: Source, node: number): HTMLElement {
  const place = make('div', 'detail');
  const fill = async (): Promise<void> => {
    const outcome = await source.ask<NodeDetail>(`detail?node=${node}`);
    if ('problem' in outcome)
      return source.isServed ? place.append(make('p', 'note bad', outcome.problem)) : undefined;
    const { attributes, weights } = outcome.value;
    const rows = attributes.map(([name, text]) => makeFact(make('bdi', '', name), make('bdi', '', text)));
    place.replaceChildren(
      ...(rows.length > 0 ? [make('h3', '', 'Attributes'), make('dl', 'table', rows)] : []),
      ...(weights.length > 0 ? [make('h3', '', 'In the file'), ...weights.map(makeWeight)] : []),
    );
  };
  void fill().catch((error: unknown) => place.append(make('p', 'note bad', String(error))));
  return place;
}

function makeWeight({ name, dtype, dims, problem, figures, counts }: WeightDetail): HTMLElement {
  const most = Math.max(...counts);
  const bars = counts.map((count) => make('i', '', { '--share': `${(100 * count) / most}%` }));
  const share = figures && figures.zeros / dims.reduce((product, size) => product * size, 1);
  const says = figures
    ? `mean ${formatValue(figures.mean)} · deviation ${formatValue(figures.std)} · zeros ${formatShare(share || 0)}`
    : (problem ?? '');
  return make(
    'figure',
    'weight',
    make('figcaption', '', make('bdi', '', name), make('span', '', `[${dims.join(', ')}] ${dtype}`)),
    figures && counts.length > 1 ? make('div', 'bars', { 'aria-hidden': true }, bars) : undefined,
    figures
      ? make(
          'div',
          'ends tiny muted',
          make('span', '', formatValue(figures.least)),
          make('span', '', formatValue(figures.largest)),
        )
      : undefined,
    make('p', 'tiny muted', says),
    figures && figures.notFinite > 0
      ? make('p', 'tiny bad', `${formatCount(figures.notFinite)} values are NaN or infinite.`)
      : undefined,
  );
}

/** Shows why a name is refused; `instead` goes to the name to use. */
export function showRefusal(card: HTMLElement, name: string, why: string, instead?: HTMLElement): void {
  card.replaceChildren(
    makeHead('refused name', breakable(name)),
    make('p', 'note bad', `${why}.`),
    ...(instead ? [make('div', 'line small', 'ask for', instead)] : []),
  );
}

/** A name whose lines break between its parts. */
function breakable(name: string): HTMLElement {
  const parts = name.split(/(?<=[./_:])/).flatMap((part) => [part, make('wbr', '')]);
  return make('bdi', '', ...parts);
}

function kindOf(graph: ModelGraph, id: Id): string {
  if (id >= 0) return graph.kindOf(id);
  const { kind } = graph.model.boxes[-1 - id]!;
  return `${kind === 'run' ? 'run of' : 'module of'} ${formatCount(graph.nodesIn(id).length)} nodes`;
}

function makeTable(graph: ModelGraph, id: Id, request: string | undefined): HTMLElement {
  const table = make('dl', 'table');
  const add = (name: string, ...values: readonly (Node | string)[]): void =>
    table.append(makeFact(name, values));
  const dims = graph.dimsOf(id);
  const info = graph.tensorOf(id);
  if (dims)
    add(
      'shape',
      make('strong', '', `[${dims.map((size) => size ?? '?').join(', ')}]`),
      info?.dtype ? ` ${info.dtype}` : '',
    );
  const reduction = reductionOf(graph, dims);
  if (reduction !== undefined) add('resolution', `1/${reduction} of the input`);
  if (request !== undefined) add('ask for it as', make('code', '', request));
  if (info && info.tensor !== request) add('tensor in the file', make('code', '', info.tensor));
  if (graph.bytesOf(id) > 0) add('one result', formatBytes(graph.bytesOf(id)));
  for (const metric of ['macs', 'parameters', 'milliseconds'] as const) {
    const cost = graph.costOf(id, metric);
    if (cost === 0) continue;
    const share = formatShare(cost / graph.costOf(ROOT, metric));
    add(METRIC_NAMES[metric], formatCost(cost, metric), make('span', 'small', ` · ${share}`));
  }
  return table;
}

/** By how much a map is smaller than the image. */
function reductionOf({ model, measure }: ModelGraph, dims: StatedDims | null): number | undefined {
  const sizes = model.inputs.map((input, i) => measure?.inputs[i] ?? input.dims);
  const image = sizes.find((size) => size?.length === 4)?.[2];
  const height = dims?.length === 4 ? dims[2] : undefined;
  if (typeof image !== 'number' || typeof height !== 'number' || height < 2) return undefined;
  const ratio = image / height;
  return ratio >= 1 && Number.isInteger(ratio) ? ratio : undefined;
}

function makeNeighbours(graph: ModelGraph, id: Id, { onGo }: NodeActions): HTMLElement[] {
  return Object.entries(neighboursOf(graph, id)).flatMap(([title, ids]) => {
    if (ids.length === 0) return [];
    const links = ids.slice(0, MOST_NEIGHBOURS).map((one) => makeChip(graph.nameOf(one), () => onGo(one)));
    const more = ids.length - links.length;
    return [make('div', 'line small', title, links, more > 0 ? `and ${more} more` : '')];
  });
}
