import { describe, expect, it } from 'vitest';
import { formatTable, shortenMiddle } from '../../../src/cli/terminal/table.js';

describe('formatTable', () => {
  const long = `/model/${'block/'.repeat(100)}Add`;
  const rows = [
    ['name', 'op', 'tensor'],
    [long, 'Add', `${long}_output_0`],
    ['short', 'Relu', 'x'],
  ];

  it('keeps names whole without a limit', () => {
    expect(formatTable(rows, { columns: undefined })).toContain(`${long}_output_0`);
  });

  it.each([80, 120, 200])('keeps lines within %i characters, by the middle of names', (columns) => {
    const lines = formatTable(rows, { columns, names: [0, 2] })
      .trimEnd()
      .split('\n');
    expect(Math.max(...lines.map((line) => line.length))).toBe(columns);
    expect(lines[1]).toMatch(/^\/model\/.*….*Add  Add  +\/model.*….*_output_0$/);
    expect(lines[2]).toMatch(/^short +Relu +x$/);
  });

  it('leaves names readable on a terminal that is too narrow', () => {
    const [, line] = formatTable(rows, { columns: 10, names: [0, 2] }).split('\n');
    expect(line!.split(/ {2,}/)[0]).toHaveLength(16);
  });
});

describe('shortenMiddle', () => {
  it.each([
    ['abcdef', 6, 'abcdef'],
    ['abcdef', 5, 'ab…ef'],
    ['abcdef', 4, 'ab…f'],
  ])('of %s to %i is %s', (text, most, short) => expect(shortenMiddle(text, most)).toBe(short));
});

describe('cells of a table', () => {
  it('spells out control characters', () =>
    expect(formatTable([['a\u001b[2J\n']], { columns: undefined })).toBe('a\\u001b[2J\\u000a\n'));
});
