/** The members of a JSON object as they were written. */

/**
 * Returns the text of each value of an object, by name: parsing and writing a number again would change it (64-bit integers, `1.0`). Of several members with one name the last counts, as in JSON.parse.
 *
 * @param text - An object that JSON.parse has accepted.
 */
export function memberTexts(text: string): Map<string, string> {
  const members = new Map<string, string>();
  let at = text.indexOf('{') + 1;
  for (;;) {
    at = skip(text, at, BLANK);
    if (text[at] === '}') return members;
    const nameEnd = endOfString(text, at);
    // JSON.parse has accepted this text before.
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

/** Returns the position after a match at a position. */
function skip(text: string, at: number, what: RegExp): number {
  what.lastIndex = at;
  what.test(text);
  return what.lastIndex;
}

/** Finds the end of a string. A regular expression for a whole string overflows the stack on an image of some megabytes. */
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
