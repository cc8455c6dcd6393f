/** Text tables and numbers for people. */
import { shown } from '../../base/printable.js';

export interface TableLayout {
  /** Characters per line, as {@link Terminal} has them; undefined for no limit. */
  readonly columns: number | undefined;
  /** Columns whose cells are aligned to the right. */
  readonly right?: readonly number[];
  /** Columns of names, whose cells lose their middle to keep the limit. */
  readonly names?: readonly number[];
  /** Columns that are left out, one after the other, where that is not enough. The table then says so. */
  readonly spare?: readonly number[];
}

const GAP = 2;
/** Shorter names are of no use. */
const LEAST_NAME = 16;

/** Rows as aligned columns. The first row holds the headings. */
export function formatTable(
  given: readonly (readonly string[])[],
  { columns = Infinity, right = [], names = [], spare = [] }: TableLayout,
): string {
  const rows = given.map((row) => row.map(shown));
  for (let left = 0; ; left++) {
    const out = spare.slice(0, left);
    const { lines, isFitting } = layOut(rows, right, names, out, columns);
    if (!isFitting && left < spare.length) continue;
    const missing = out.map((i) => rows[0]![i]!).filter((heading) => heading !== '');
    const note = missing.length === 0 ? '' : `not shown in ${columns} columns: ${missing.join(', ')}\n`;
    return `${lines.join('\n')}\n${note}`;
  }
}

/** Lines without some columns, names shortened if need be. */
function layOut(
  rows: readonly (readonly string[])[],
  right: readonly number[],
  names: readonly number[],
  out: readonly number[],
  columns: number,
): { readonly lines: readonly string[]; readonly isFitting: boolean } {
  const shownNames = names.filter((i) => !out.includes(i));
  const columnsOf = (row: readonly unknown[]): number[] => [...row.keys()].filter((i) => !out.includes(i));
  const widths = widthsOf(rows);
  const total = columnsOf(widths).reduce((sum, i) => sum + widths[i]! + GAP, -GAP);
  const most = shareOut(
    shownNames.map((i) => widths[i] ?? 0),
    Math.max(0, total - columns),
  );
  const kept = new Map(shownNames.map((column, i) => [column, most[i]!]));
  const cut = rows.map((row) => row.map((cell, i) => shortenMiddle(cell, kept.get(i) ?? Infinity)));
  const cutWidths = widthsOf(cut);
  const lines = cut.map((row) =>
    columnsOf(row)
      .map((i) => (right.includes(i) ? row[i]!.padStart(cutWidths[i]!) : row[i]!.padEnd(cutWidths[i]!)))
      .join(' '.repeat(GAP))
      .trimEnd(),
  );
  return { lines, isFitting: lines.every((line) => line.length <= columns) };
}

function widthsOf(rows: readonly (readonly string[])[]): number[] {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, cell.length)));
  return widths;
}

/** Takes characters from the widest columns, one by one, but leaves each {@link LEAST_NAME}. */
function shareOut(widths: readonly number[], excess: number): number[] {
  const left = [...widths];
  for (let taken = 0; taken < excess; taken++) {
    const widest = left.indexOf(Math.max(...left));
    if (widest < 0 || left[widest]! <= LEAST_NAME) break;
    left[widest]!--;
  }
  return left;
}

/** `/very/long/name/of/a/node` → `/very/lo…/a/node`. Indentation stays. */
export function shortenMiddle(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

/** The outputs of a model that is made of another one, and what each was asked for. */
export function formatOutputs(rows: readonly (readonly string[])[], columns: number | undefined): string {
  const head = ['output', 'asked for', 'tensor', 'read as'];
  return formatTable([head, ...rows], { columns, names: [0, 1, 2], spare: [3] });
}

/** Sizes of a tensor: `[batch, 2048, 7, 7]`. */
export function formatDims(dims: readonly (number | string | null)[] | null): string {
  return dims === null ? '?' : `[${dims.map((size) => size ?? '?').join(', ')}]`;
}
