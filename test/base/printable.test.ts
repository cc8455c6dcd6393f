import { describe, expect, it } from 'vitest';
import { printable, shown } from '../../src/base/printable.js';

const HOSTILE = 'a\u001b]0;x\u0007\u009b2J\u202eb\u2066\u200f\u061c\u2028\u007f\ud800';

describe('printable', () => {
  it('spells out what acts on a terminal or turns text around', () =>
    expect(printable(HOSTILE)).toBe(
      String.raw`a\u001b]0;x\u0007\u009b2J\u202eb\u2066\u200f\u061c\u2028\u007f\ud800`,
    ));

  it('keeps line ends, words of all languages and joined emoji', () => {
    const text = 'Ünï 狸 אבג 👩‍🔬\nnext\n';
    expect(printable(text)).toBe(text);
    expect(shown('a\nb')).toBe(String.raw`a\u000ab`);
  });

  it('keeps the value of JSON', () => {
    const value = { [HOSTILE]: ['\u0085', '\u202e', 'line\nline'] };
    expect(JSON.parse(printable(JSON.stringify(value, null, 2)))).toEqual(value);
  });
});
