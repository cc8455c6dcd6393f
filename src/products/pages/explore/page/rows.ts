/** The open boxes → rows, frames and lines with their places. This file uses no part of the browser. */
import { groupBy } from '../../../../base/group-by.js';
import { ROOT, type Flow, type Id, type ModelGraph } from './graph.js';

export const ROW = 36;
/** Below the last row of an open box. */
const FOOT = 10;
/** Above the first row. */
const TOP = 10;
/** Below the last row: the outputs of the model. */
const PORT = 30;
const LANE = 10;
const MOST_LANES = 8;
/** From the left edge of a frame to the line, without lanes. */
const GUTTER = 20;

/** A line of the picture: a node, a closed box, or the head of an open box. */
export interface Row {
  readonly id: Id;
  readonly depth: number;
  readonly isOpen: boolean;
  readonly x: number;
  readonly y: number;
  readonly position: number;
  readonly siblings: number;
}

/** The frame of an open box. */
export interface Frame extends Pick<Row, 'id' | 'depth' | 'x' | 'y'> {
  readonly height: number;
}

/** A line along which data flows: straight down, or through a lane at the left to one place or several. */
export interface Line {
  readonly x: number;
  readonly from: number;
  /** Undefined for a straight line. */
  readonly lane: number | undefined;
  readonly ends: readonly number[];
  readonly bytes: number;
  /** The lowest and the highest place. */
  readonly top: number;
  readonly bottom: number;
}

export interface Layout {
  readonly rows: readonly Row[];
  readonly frames: readonly Frame[];
  readonly lines: readonly Line[];
  readonly height: number;
}

/** Lays out what is open. */
export function layOut(graph: ModelGraph, open: ReadonlySet<Id>, withAside: boolean): Layout {
  const rows: Row[] = [];
  const frames: Frame[] = [];
  const lines: Line[] = [];
  let y = TOP;
  const place = (box: Id, depth: number, left: number, entry: number): void => {
    const children = graph.childrenOf(box, withAside);
    const { buses, straight, lanes } = sortFlows(graph.flowsOf(box, withAside), children.length);
    const x = left + GUTTER + Math.min(lanes, MOST_LANES) * LANE;
    const tops: number[] = [];
    const bottoms: number[] = [];
    children.forEach((id, position) => {
      const isOpen = id < 0 && open.has(id);
      const top = y;
      rows.push({ id, depth, isOpen, x, y, position: position + 1, siblings: children.length });
      y += ROW;
      if (isOpen) {
        place(id, depth + 1, x, top + ROW);
        y += FOOT;
        frames.push({ id, depth, x, y: top, height: y - top - 4 });
      }
      tops.push(top);
      bottoms.push(isOpen ? y - 4 : top + ROW);
    });
    const exit = y + (box === ROOT ? 8 : 2);
    const startOf = (at: number): number =>
      at < 0 ? entry : bottoms[at]! - (open.has(children[at]!) ? 0 : ROW / 2 - 6);
    const endOf = (at: number): number =>
      at >= children.length ? exit : tops[at]! + (open.has(children[at]!) ? 0 : ROW / 2 - 6);
    for (const { from, to, bytes } of straight)
      lines.push(span({ x: x + 9, from: startOf(from), lane: undefined, ends: [endOf(to)], bytes }));
    for (const { from, lane, targets, bytes } of buses)
      lines.push(
        span({
          x: x + 9,
          from: from < 0 ? entry - 4 : Math.min(startOf(from) + 2, bottoms[from]!),
          lane: x + 9 - GUTTER - (lane % MOST_LANES) * LANE,
          ends: targets.map((to) =>
            to >= children.length ? exit : open.has(children[to]!) ? tops[to]! + 2 : tops[to]! + ROW / 2,
          ),
          bytes,
        }),
      );
  };
  place(ROOT, 0, 0, 20);
  return { rows, frames: frames.toSorted((a, b) => a.depth - b.depth), lines, height: y + PORT };
}

function span(line: Omit<Line, 'top' | 'bottom'>): Line {
  const all = [line.from, ...line.ends];
  return { ...line, top: Math.min(...all), bottom: Math.max(...all) };
}

interface Bus {
  readonly from: number;
  readonly targets: readonly number[];
  readonly lane: number;
  readonly bytes: number;
}

/** Flows to the next place are straight; the others of one source share a lane. */
export function sortFlows(
  flows: readonly Flow[],
  count: number,
): { readonly straight: readonly Flow[]; readonly buses: readonly Bus[]; readonly lanes: number } {
  const straight = flows.filter(({ from, to }) => to === from + 1);
  // The box's own line shows what enters at its first and leaves at its last place.
  const others = flows.filter(({ from, to }) => to !== from + 1 && !(from < 0 && to >= count));
  const bySource = groupBy(others, ({ from }) => from);
  const ends: number[] = [];
  const buses = [...bySource]
    .toSorted(([a], [b]) => a - b)
    .map(([from, list]) => {
      const last = Math.max(...list.map(({ to }) => to));
      let lane = ends.findIndex((end) => end <= from);
      if (lane < 0) lane = ends.length;
      ends[lane] = last;
      return {
        from,
        lane,
        targets: list.map(({ to }) => to),
        bytes: Math.max(...list.map(({ bytes }) => bytes)),
      };
    });
  return { straight, buses, lanes: ends.length };
}

/** What is open at first: whole levels, as long as the rows fit on a screen. */
export function openAtFirst(graph: ModelGraph, mostRows: number): Set<Id> {
  const open = new Set<Id>();
  let level: readonly Id[] = graph.childrenOf(ROOT, false);
  let count = level.length;
  for (;;) {
    const boxes = level.filter((id) => id < 0);
    const next = boxes.flatMap((box) => graph.childrenOf(box, false));
    if (boxes.length === 0 || count + next.length > mostRows) return open;
    for (const box of boxes) open.add(box);
    count += next.length;
    level = next;
  }
}

/** The box that costs most; where one holds most of the model, the one in it that costs most. */
export function mostCostly(graph: ModelGraph): Id | undefined {
  const metric = graph.costOf(ROOT, 'macs') > 0 ? 'macs' : 'parameters';
  const costOf = (id: Id): number => graph.costOf(id, metric);
  let found: Id = ROOT;
  while (found === ROOT || costOf(found) > costOf(ROOT) / 2) {
    const boxes = graph.childrenOf(found, false).filter((id) => id < 0);
    if (boxes.length === 0) break;
    found = boxes.reduce((best, id) => (costOf(id) > costOf(best) ? id : best));
  }
  return found === ROOT ? undefined : found;
}
