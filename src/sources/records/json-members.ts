/** The members of a JSON object as they are written: reading and writing a number would change it (64-bit integers, `1.0`). */

/**
 * The text of each value of an object, by name; of members of the same name, the last one's, as JSON.parse has it.
 *
 * @param text - An object that JSON.parse reads.
 */
export function memberTexts(text: string): Map<string, string> {
  const members = new Map<string, string>();
  let at = text.indexOf('{') + 1;
  for (;;) {
    at = skip(text, at, BLANK);
    if (text[at] === '}') return members;
    const nameEnd = endOfString(text, at);
    // What was parsed before.
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
    const start = skip(text, text.indexOf(':', nameEnd) + 1, BLANK);
    const end = endOfValue(text, start);
    members.set(name, text.slice(start, end));
    at = skip(text, end, BLANK);
    if (text[at] === ',') at++;
  }
}

const BLANK = /[ \t\r\n]*/y;
const LITERAL = /[^,\]}\s]*/y;
const OPENING = /[^"[\]{}]*/y;

function skip(text: string, at: number, what: RegExp): number {
  what.lastIndex = at;
  what.test(text);
  return what.lastIndex;
}

/** Not by a regular expression over the whole of it, which overflows on an image of some megabytes. */
function endOfString(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); ; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
}

function endOfValue(text: string, start: number): number {
  if (text[start] === '"') return endOfString(text, start);
  if (text[start] !== '{' && text[start] !== '[') return skip(text, start, LITERAL);
  let depth = 0;
  for (let at = start; ; at = skip(text, at, OPENING)) {
    const character = text[at];
    if (character === '"') {
      at = endOfString(text, at);
      continue;
    }
    depth += character === '{' || character === '[' ? 1 : -1;
    at++;
    if (depth === 0) return at;
  }
}
