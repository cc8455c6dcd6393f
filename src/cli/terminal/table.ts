/** Text tables and numbers for people. */

/** Names come from files: control characters would act on the terminal. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

/** Rows as aligned columns; cells of `right` columns are aligned to the right. */
export function formatTable(given: readonly (readonly string[])[], right: readonly number[] = []): string {
  const rows = given.map((row) => row.map(printable));
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, cell.length)));
  const lines = rows.map((row) =>
    row
      .map((cell, i) => (right.includes(i) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}

/** Sizes of a tensor: `[batch, 2048, 7, 7]`. */
export function formatDims(dims: readonly (number | string | null)[] | null): string {
  return dims === null ? '?' : `[${dims.map((size) => size ?? '?').join(', ')}]`;
}
