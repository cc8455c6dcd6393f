import { describe, expect, it } from 'vitest';
import { cutLine, wrapLines } from '../../../src/cli/terminal/fit-lines.js';

describe('wrapLines', () => {
  it('breaks prose at spaces, and indents what goes on', () =>
    expect(wrapLines('note: the preprocessing was assumed\n  e: 24 rows of vectors', 20)).toBe(
      'note: the\n  preprocessing was\n  assumed\n  e: 24 rows of\n    vectors',
    ));

  it('goes on under the last cell', () =>
    expect(wrapLines('✓ cpu  works, two small models ran', 22)).toBe(
      '✓ cpu  works, two\n       small models\n       ran',
    ));

  it('leaves words and tables whole', () => {
    const text = '/a/path/that/is/longer/than/a/line\nname          op     dtype';
    expect(wrapLines(text, 20)).toBe(text);
  });
});

describe('cutLine', () => {
  it.each([
    ['24 of 387 images', 16, '24 of 387 images'],
    ['24 of 387 images', 10, '24 of 387…'],
    // Two cells each.
    ['写真写真', 6, '写真…'],
  ])('of %s to %i is %s', (line, columns, cut) => expect(cutLine(line, columns)).toBe(cut));
});
