/** HTML from text that comes from files, escaped so that it cannot act on the page. */
import { printable, spellOut } from '../printable.js';

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

/** Safe between tags and inside quoted attributes. Characters that act on text are spelled out. */
function escapeText(text: string): string {
  return printable(text).replace(/[&<>"']/g, (char) => ENTITIES[char]!);
}

/** JSON that is safe inside a script element: without `<`, which could end it, and without marks that change how the file reads. */
export function toScriptJson(value: unknown): string {
  return printable(JSON.stringify(value)).replace(/[<>&]/g, spellOut);
}

/** Numbers for {@link toScriptJson}: little-endian bytes in base64. Node runs on little-endian machines only. */
export function encodeNumbers(numbers: Uint8Array | Uint16Array | Uint32Array | Float32Array): string {
  return Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength).toString('base64');
}
