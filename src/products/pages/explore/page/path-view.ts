/** The model as nested boxes: only the rows in sight are in the page. */
import { printable } from '../../../../base/printable.js';
import { byId, make } from '../../../../base/html/browser/elements.js';
import { ROOT, type Id, type Metric, type ModelGraph } from './graph.js';
import { makeRow } from './row-element.js';
import { layOut, ROW, type Frame, type Layout, type Line, type Row } from './rows.js';

/** Rows above and below those in sight that are in the page, too. */
const MORE_ROWS = 12;

/** What a view tells. */
export interface PathEvents {
  readonly onChoose: (id: Id) => void;
  readonly onPick: (id: Id) => void;
  readonly onLook: () => void;
}

/** Draws the boxes, and moves by keyboard as a tree of WAI-ARIA does. */
export class PathView {
  readonly #graph: ModelGraph;
  readonly #host: HTMLElement;
  readonly #events: PathEvents;
  readonly #aside = byId('aside') as HTMLInputElement;
  readonly #sheet = make('div', 'sheet', { role: 'presentation' });
  readonly #frameLayer = make('div', 'frames');
  readonly #port = make('p', 'port tiny clip');
  readonly #lines = makeSvg('svg', { class: 'lines', 'aria-hidden': 'true' });
  readonly #shown = new Map<Id, HTMLElement>();
  readonly #frames = new Map<Id, HTMLElement>();
  #open: Set<Id>;
  #metric: Metric = 'macs';
  #layout!: Layout;
  #chosen: Id | undefined;
  #picked: ReadonlySet<Id> = new Set();
  #kept: ReadonlySet<number> | undefined;
  #waiting = false;
  #mostBytes = 1;

  constructor(graph: ModelGraph, host: HTMLElement, open: Set<Id>, events: PathEvents) {
    this.#graph = graph;
    this.#host = host;
    this.#events = events;
    this.#open = open;
    this.#sheet.append(this.#frameLayer, this.#lines, this.#port);
    host.append(this.#sheet);
    host.addEventListener('scroll', () => this.#later(), { passive: true });
    host.addEventListener('keydown', (event) => this.#onKey(event));
    host.addEventListener('focus', () => {
      if (this.#chosen === undefined && this.#layout.rows[0]) this.choose(this.#layout.rows[0].id, false);
    });
    this.#aside.addEventListener('change', () => this.refresh());
    new ResizeObserver(() => this.#later()).observe(host);
    this.refresh();
  }

  get chosen(): Id | undefined {
    return this.#chosen;
  }

  /** Draws everything again: the model was measured, or another cost is shown. */
  refresh(): void {
    this.#layout = layOut(this.#graph, this.#open, this.#aside.checked);
    this.#sheet.style.height = `${this.#layout.height}px`;
    this.#mostBytes = this.#layout.lines.reduce((most, { bytes }) => Math.max(most, bytes), 1);
    this.#showPort();
    for (const element of [...this.#shown.values(), ...this.#frames.values()]) element.remove();
    this.#shown.clear();
    this.#frames.clear();
    this.#draw();
  }

  showCost(metric: Metric): void {
    this.#metric = metric;
    this.refresh();
  }

  /** Marks what is picked, and fades what a cut leaves out. */
  showCut(picked: ReadonlySet<Id>, kept: ReadonlySet<number> | undefined): void {
    this.#picked = picked;
    this.#kept = kept;
    this.refresh();
  }

  /** Opens or closes all boxes. What was chosen stays in sight, or the box that closed around it is chosen. */
  foldAll(isOpen: boolean): void {
    this.#open = new Set(isOpen ? this.#graph.model.boxes.map((_, i) => -1 - i).slice(1) : []);
    this.refresh();
    const chosen = this.#chosen;
    if (chosen !== undefined) this.choose(isOpen ? chosen : [chosen, ...this.#graph.above(chosen)].at(-2)!);
  }

  /** Chooses an id; opens the boxes around it and brings it into sight. */
  choose(id: Id, isCentred = true): void {
    const above = this.#graph.above(id).filter((box) => box !== ROOT);
    if (this.#graph.isHidden(id)) this.#aside.checked = true;
    const mustOpen = above.filter((box) => !this.#open.has(box));
    for (const box of mustOpen) this.#open.add(box);
    this.#mark(id, false);
    this.#chosen = id;
    if (mustOpen.length > 0 || !this.#rowOf(id)) this.refresh();
    this.#mark(id, true);
    this.#intoSight(id, isCentred);
    this.#events.onChoose(id);
  }

  /** Chooses a box, and opens it. */
  chooseOpen(box: Id | undefined): void {
    if (box === undefined) return;
    this.#toggle(box, true);
    this.choose(box);
  }

  focus(): void {
    this.#host.focus();
  }

  /** Marks the row of an id, or all others, without laying anything out. */
  #mark(id: Id, isChosen: boolean): void {
    for (const [one, element] of this.#shown)
      if ((one === id) === isChosen) element.setAttribute('aria-selected', String(isChosen));
  }

  #intoSight(id: Id, isCentred: boolean): void {
    const row = this.#rowOf(id);
    if (!row) return;
    const { scrollTop, clientHeight } = this.#host;
    const isInSight = row.y >= scrollTop + 4 && row.y + ROW <= scrollTop + clientHeight - 4;
    if (!isInSight) {
      const top = isCentred
        ? row.y - clientHeight / 2
        : row.y < scrollTop
          ? row.y - ROW
          : row.y + 2 * ROW - clientHeight;
      this.#host.scrollTop = top;
    }
    this.#draw();
  }

  #rowOf(id: Id): Row | undefined {
    return this.#layout.rows.find((row) => row.id === id);
  }

  #toggle(id: Id, isOpen = !this.#open.has(id)): void {
    if (id >= 0) return;
    if (isOpen) this.#open.add(id);
    else this.#open.delete(id);
    this.refresh();
  }

  #onKey(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { rows } = this.#layout;
    const at = rows.findIndex(({ id }) => id === this.#chosen);
    const row = rows[at];
    const page = Math.max(1, Math.floor(this.#host.clientHeight / ROW) - 1);
    const go = (to: number): void => {
      const next = rows[Math.min(rows.length - 1, Math.max(0, to))];
      if (next) this.choose(next.id, false);
    };
    const act: Readonly<Record<string, (() => void) | undefined>> = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      PageDown: () => go(at + page),
      PageUp: () => go(at - page),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: row && (() => (row.id < 0 && !row.isOpen ? this.#toggle(row.id, true) : go(at + 1))),
      ArrowLeft: row && (() => this.#leave(row)),
      ' ': row && (() => this.#events.onPick(row.id)),
      Enter: () => this.#events.onLook(),
    };
    const found = act[event.key];
    if (!found) return;
    event.preventDefault();
    found();
  }

  #leave({ id, isOpen }: Row): void {
    const parent = this.#graph.parentOf(id);
    if (isOpen) this.#toggle(id, false);
    else if (parent !== undefined && parent !== ROOT) this.choose(parent, false);
  }

  #later(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => {
      this.#waiting = false;
      this.#draw();
    });
  }

  /** What comes out at the bottom. */
  #showPort(): void {
    const graph = this.#graph;
    const outputs = graph.model.outputs.map((place) => graph.tensorOf(graph.idAt(place))!.tensor);
    this.#port.textContent = printable(`out: ${outputs.join(', ')}`);
    this.#sheet.style.setProperty('--x', `${(this.#layout.rows[0]?.x ?? 0) + 22}px`);
  }

  /** Puts what is in sight into the page, and removes what is not. */
  #draw(): void {
    const { rows, frames, lines, height } = this.#layout;
    const top = this.#host.scrollTop - MORE_ROWS * ROW;
    const bottom = this.#host.scrollTop + Math.max(this.#host.clientHeight, 10 * ROW) + MORE_ROWS * ROW;
    const isInSight = (from: number, to: number): boolean => from <= bottom && to >= top;
    const shownRows = rows.filter(({ y }) => isInSight(y, y + ROW));
    this.#show(this.#shown, this.#sheet, shownRows, (row) => this.#makeRow(row));
    const shownFrames = frames.filter(({ y, height: high }) => isInSight(y, y + high));
    this.#show(this.#frames, this.#frameLayer, shownFrames, makeFrame);
    this.#lines.setAttribute('height', String(height));
    this.#lines.replaceChildren(...this.#makeLines(lines.filter((line) => isInSight(line.top, line.bottom))));
    const active = this.#chosen === undefined ? undefined : this.#shown.get(this.#chosen);
    if (active) this.#host.setAttribute('aria-activedescendant', active.id);
    else this.#host.removeAttribute('aria-activedescendant');
  }

  /** Puts elements of items into a layer, and removes those of other items. */
  #show<Item extends { readonly id: Id }>(
    shown: Map<Id, HTMLElement>,
    layer: HTMLElement,
    items: readonly Item[],
    makeElement: (item: Item) => HTMLElement,
  ): void {
    const kept = new Set(items.map(({ id }) => id));
    for (const [id, element] of shown)
      if (!kept.has(id)) {
        element.remove();
        shown.delete(id);
      }
    for (const item of items.filter(({ id }) => !shown.has(id))) {
      shown.set(item.id, makeElement(item));
      layer.append(shown.get(item.id)!);
    }
  }

  #makeLines(lines: readonly Line[]): SVGElement[] {
    return lines.flatMap((line) => {
      const width = (1.4 + 4.2 * Math.sqrt(line.bytes / this.#mostBytes)).toFixed(1);
      const flow = line.lane === undefined ? 'flow' : 'flow bus';
      const path = makeSvg('path', { d: pathOf(line), 'stroke-width': width, class: flow });
      const tips =
        line.lane === undefined ? [] : line.ends.map((end) => `M${line.x - 10} ${end - 3.5}l5 3.5l-5 3.5z`);
      return [path, ...tips.map((d) => makeSvg('path', { d, class: 'tip' }))];
    });
  }

  #makeRow(row: Row): HTMLElement {
    const { id } = row;
    const kept = this.#kept;
    const element = makeRow(this.#graph, row, {
      metric: this.#metric,
      isChosen: id === this.#chosen,
      isPicked: this.#picked.has(id),
      isFaded: kept !== undefined && !this.#graph.sourcesIn(id).some((source) => kept.has(source)),
    });
    element.addEventListener('click', ({ target }) => {
      this.#host.focus({ preventScroll: true });
      const isOn = (parts: string): boolean => (target as Element).closest(parts) !== null;
      if (isOn('.pick')) this.#events.onPick(id);
      else {
        if (isOn('.glyph, .name')) this.#toggle(id);
        this.choose(id, false);
      }
    });
    return element;
  }
}

function pathOf({ x, from, lane, ends }: Line): string {
  if (lane === undefined) return `M${x} ${from}V${ends[0]!}`;
  return ends
    .map((end) => {
      const way = Math.sign(end - from) || 1;
      const r = Math.min(7, x - lane, Math.abs(end - from) / 2);
      return `M${x} ${from}H${lane + r}Q${lane} ${from} ${lane} ${from + way * r}V${end - way * r}Q${lane} ${end} ${lane + r} ${end}H${x - 8}`;
    })
    .join('');
}

function makeFrame({ depth, x, y, height }: Frame): HTMLElement {
  const element = make('div', 'frame', { 'data-depth': depth % 2, '--x': `${x - 3}px`, '--y': `${y}px` });
  const { style } = element;
  [style.right, style.height, style.zIndex] = [`${6 * (depth + 1)}px`, `${height}px`, String(depth)];
  return element;
}

function makeSvg(tag: string, attributes: Readonly<Record<string, string>>): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
