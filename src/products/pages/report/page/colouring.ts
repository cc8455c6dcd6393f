/** What the points are coloured by: groups of classes, or steps of a number. This file uses no part of the browser. */
import { decodeNumbers } from '../../../../base/html/browser/decode-numbers.js';
import { formatValue } from '../../../../base/html/numbers.js';
import type { PageColumn, PageData } from './data.js';
import type { Points } from './points.js';

/** Steps of a number. */
const STEPS = 12;
/** Share of the values at each end that the first and the last step take together. */
const CLIPPED = 0.02;

/** The points in groups, each with a colour. */
export interface Colouring {
  readonly name: string;
  readonly isNumber: boolean;
  readonly groups: readonly { readonly name: string; readonly count: number }[];
  readonly groupOf: Uint16Array;
  /** All points, group by group, so that a drawing changes its colour once per group. */
  readonly order: Uint32Array;
}

/** Puts the points into the groups of a column. */
export function colourPoints(data: PageData, points: Points, column: PageColumn): Colouring {
  const { name } = column;
  const { members, count } = points;
  // The columns of an output have an entry for each point, those of the page for each image.
  const isOwn = points.columns.includes(column);
  const at = isOwn ? (point: number) => point : (point: number) => members[point]!;
  if ('values' in column) return finish(name, true, ...stepsOf(column, count, at));
  const places = decodeNumbers(Uint16Array, column.places);
  const groupOf = Uint16Array.from({ length: count }, (_, point) => places[at(point)]!);
  const names =
    isOwn && name === 'cluster' ? nameClusters(data, points, groupOf, column.names) : column.names;
  return finish(name, false, names, groupOf);
}

function finish(name: string, isNumber: boolean, names: readonly string[], groupOf: Uint16Array): Colouring {
  const counts = names.map(() => 0);
  for (const group of groupOf) counts[group]!++;
  const starts = counts.map((_, group) => counts.slice(0, group).reduce((sum, one) => sum + one, 0));
  const order = new Uint32Array(groupOf.length);
  groupOf.forEach((group, point) => (order[starts[group]!++] = point));
  return {
    name,
    isNumber,
    groups: names.map((one, i) => ({ name: one, count: counts[i]! })),
    groupOf,
    order,
  };
}

type NumberColumn = Extract<PageColumn, { readonly values: string }>;

/** Steps of equal width; values that are not known make one more step. */
function stepsOf(
  column: NumberColumn,
  count: number,
  at: (point: number) => number,
): [names: string[], groupOf: Uint16Array] {
  const values = decodeNumbers(Float32Array, column.values);
  const known = Float32Array.from({ length: count }, (_, point) => values[at(point)]!);
  const sorted = known.filter(Number.isFinite).toSorted();
  const skipped = Math.floor((CLIPPED / 2) * sorted.length);
  const [low = 0, high = 0] = [sorted[skipped], sorted.at(-1 - skipped)];
  const width = (high - low) / STEPS || 1;
  const groupOf = Uint16Array.from(known, (value) =>
    Number.isFinite(value) ? Math.max(0, Math.min(STEPS - 1, Math.floor((value - low) / width))) : STEPS,
  );
  const { since } = column;
  const format =
    since === undefined ? formatValue : (value: number) => formatTime(since + 1000 * value, width);
  const names = Array.from(
    { length: STEPS },
    (_, i) => `${format(low + i * width)} to ${format(low + (i + 1) * width)}`,
  );
  return [sorted.length < count ? [...names, 'not known'] : names, groupOf];
}

const DAY = 86_400;

/** A time in UTC, as exactly as steps of so many seconds need it: `2026-03-14`, `2026-03-14 15:09`. */
function formatTime(time: number, seconds: number): string {
  const [day = '', clock = ''] = new Date(time).toISOString().split('T');
  return seconds >= DAY ? day : `${day} ${clock.slice(0, seconds >= 60 ? 5 : 8)}`;
}

/** Names clusters by the class that most of their images have. */
function nameClusters(
  { columns }: PageData,
  { members }: Points,
  groupOf: Uint16Array,
  names: readonly string[],
): string[] {
  const classes = columns.find((column) => 'names' in column);
  if (!classes || !('names' in classes)) return [...names];
  const places = decodeNumbers(Uint16Array, classes.places);
  const counts = names.map(() => new Map<number, number>());
  groupOf.forEach((group, point) => {
    const place = places[members[point]!]!;
    counts[group]!.set(place, (counts[group]!.get(place) ?? 0) + 1);
  });
  return counts.map((found, i) => {
    const total = [...found.values()].reduce((sum, one) => sum + one, 0);
    const [place, most] = [...found].reduce((best, one) => (one[1] > best[1] ? one : best), [0, 0]);
    return most > total / 2 ? `${i + 1} · ${classes.names[place]!}` : String(i + 1);
  });
}
