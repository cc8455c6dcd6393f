/** Text tables and numbers for people. */
import { shown } from '../../base/printable.js';

/** A limit for the lines of a table. */
export interface TableWidth {
  /** Characters per line; undefined for no limit. */
  readonly columns: number | undefined;
  /** Columns of names, whose cells lose their middle to keep the limit. */
  readonly names: readonly number[];
}

const GAP = 2;
/** Shorter names are of no use. */
const LEAST_NAME = 16;

/** Rows as aligned columns; cells of `right` columns are aligned to the right. */
export function formatTable(
  given: readonly (readonly string[])[],
  right: readonly number[] = [],
  { columns, names }: TableWidth = { columns: undefined, names: [] },
): string {
  let rows = given.map((row) => row.map(shown));
  let widths = widthsOf(rows);
  const total = widths.reduce((sum, width) => sum + width + GAP, -GAP);
  if (columns !== undefined && total > columns) {
    const mostOf = shareOut(
      names.map((i) => widths[i] ?? 0),
      total - columns,
    );
    rows = rows.map((row) =>
      row.map((cell, i) => (names.includes(i) ? shortenMiddle(cell, mostOf[names.indexOf(i)]!) : cell)),
    );
    widths = widthsOf(rows);
  }
  const lines = rows.map((row) =>
    row
      .map((cell, i) => (right.includes(i) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
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

/** Sizes of a tensor: `[batch, 2048, 7, 7]`. */
export function formatDims(dims: readonly (number | string | null)[] | null): string {
  return dims === null ? '?' : `[${dims.map((size) => size ?? '?').join(', ')}]`;
}
