/** Text that comes from files, made safe to be part of a page. */

/** HTML that is in order. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Part = string | number | Markup | readonly Markup[] | null;

/**
 * A template of HTML whose parts are escaped, unless they are markup themselves; null is nothing. Its name is not `html`, because
 * prettier would add spaces to what is in such a template, and the hash of a script counts each of them.
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

/** JSON that is safe inside a script element: no `<` that could end it, no line ends that JavaScript knows and JSON does not. */
export function toScriptJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/**
 * A name as it is shown: control characters, marks that turn the direction of text around and halves of characters would make it
 * look like another one, and are spelt out. Emoji keep their joiners.
 */
export function shown(name: string): string {
  return name.replace(
    /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/gu,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
