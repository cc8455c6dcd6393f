/** Text → lines that fit a terminal, which else breaks them in the middle of words. */

/** Characters that take two cells. */
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Extended_Pictographic}/u;
/** What stands before the last cell of a line: columns stand two spaces apart. */
const BEFORE_LAST_CELL = /^.*\S {2,}(?=\S)/;
const INDENT = 2;

/**
 * Breaks long lines at spaces, and indents what goes on below: under the last cell, where a line has several. Words longer than a line, and
 * lines whose last cell begins in the right half, stay whole.
 */
export function wrapLines(text: string, columns: number): string {
  return text
    .split('\n')
    .map((line) => (cellsOf(line) <= columns ? line : wrapLine(line, columns)))
    .join('\n');
}

function wrapLine(line: string, columns: number): string {
  const [before] = BEFORE_LAST_CELL.exec(line) ?? [];
  if (before !== undefined && before.length > columns / 2) return line;
  const start = before ?? /^ */.exec(line)![0];
  const indent = ' '.repeat(before === undefined ? start.length + INDENT : start.length);
  const lines: string[] = [];
  let current = '';
  for (const word of line.slice(start.length).split(' ')) {
    const longer = current === '' ? start + word : `${current} ${word}`;
    if (current !== '' && cellsOf(longer) > columns) {
      lines.push(current);
      current = indent + word;
    } else current = longer;
  }
  return [...lines, current].join('\n');
}

/** Cuts a line that is longer: `100 of 25000 images, 15.2/s, 24 s le…`. */
export function cutLine(line: string, columns: number): string {
  if (cellsOf(line) <= columns) return line;
  let cells = 1;
  let kept = '';
  for (const char of line) {
    cells += cellsOf(char);
    if (cells > columns) break;
    kept += char;
  }
  return `${kept}…`;
}

function cellsOf(text: string): number {
  let cells = 0;
  for (const char of text) cells += WIDE.test(char) ? 2 : 1;
  return cells;
}
