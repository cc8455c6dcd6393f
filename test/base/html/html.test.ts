/** Names from files on their way into a page. */
import { shown } from '../../../src/base/printable.js';
import { describe, expect, it } from 'vitest';
import { markup, toScriptJson } from '../../../src/base/html/html.js';

const HOSTILE = [
  '</script><script>alert(1)</script>.jpg',
  '<!--<script>',
  `"'><img src=x onerror=alert(1)>`,
  '&lt;&amp;',
  'line\u2028and\u2029page',
  'photo\u202egpj.exe',
  'rocket🚀 family👩‍👩‍👧.png',
  'half \ud83d of one',
  'null\0byte\nnewline',
];

describe('JSON in a page', () => {
  it.each(HOSTILE)('holds %j, and nothing that ends the script', (name) => {
    const json = toScriptJson({ name });
    expect(json).not.toMatch(/[<>&\u2028\u2029]/);
    expect(JSON.parse(json)).toEqual({ name });
  });
});

describe('markup', () => {
  it('escapes text, in attributes too, and leaves markup alone', () => {
    for (const name of HOSTILE) {
      const { text } = markup`<p title="${name}">${name}</p>`;
      expect(text.replace(/^<p title="|">|<\/p>$/g, '')).not.toMatch(/[<>"']/);
    }
    expect(markup`<b>${markup`<i>${'<'}</i>`}${[markup`x`, markup`y`]}${null}${3}</b>`.text).toBe(
      '<b><i>&lt;</i>xy3</b>',
    );
  });
});

describe('shown', () => {
  it('spells out what turns text around or is not seen, and keeps emoji', () => {
    expect(shown('photo\u202egpj.exe')).toBe('photo\\u202egpj.exe');
    expect(shown('a\0b\n\u2028\ud83d')).toBe('a\\u0000b\\u000a\\u2028\\ud83d');
    expect(shown('🚀 👩‍👩‍👧 été 日本 שלום')).toBe('🚀 👩‍👩‍👧 été 日本 שלום');
  });
});
