/** HTML from text that comes from files, escaped so that it cannot act on the page. */

/** HTML that is safe to insert. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Part = string | number | Markup | readonly Markup[] | null;

/**
 * A template of HTML. Its parts are escaped unless they are markup themselves; null inserts nothing.
 *
 * It is not called `html`, because prettier reformats templates of that name, and the hash of a script counts every space.
 */
export function markup(strings: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  let text = strings[0]!;
  parts.forEach((part, index) => {
    text += textOf(part) + strings[index + 1]!;
  });
  return new Markup(text);
}

function textOf(part: Part): string {
  if (part === null) return '';
  if (part instanceof Markup) return part.text;
  if (typeof part === 'number') return String(part);
  return typeof part === 'string' ? escapeText(part) : part.map(({ text }) => text).join('');
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Safe between tags and inside quoted attributes. */
function escapeText(text: string): string {
  return text.replace(/[&<>"']/g, (char) => ENTITIES[char]!);
}

/** JSON that is safe inside a script element: without `<`, which could end it, and without U+2028 and U+2029. */
export function toScriptJson(value: unknown): string {
  return JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, spellOut);
}

/**
 * A name as the page shows it. Control characters, halves of characters and marks that reverse the direction of text could make a
 * name look like another one, so they are spelled out as `\u202e`. Emoji keep their joiners.
 */
export function shown(name: string): string {
  return name.replace(/[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/gu, spellOut);
}

function spellOut(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Numbers for {@link toScriptJson}: little-endian bytes in base64. Node runs on little-endian machines only. */
export function encodeNumbers(numbers: Uint16Array | Float32Array): string {
  return Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength).toString('base64');
}
