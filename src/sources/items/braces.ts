/** Brace lists, as shells expand them: `shard-{000..009}.tar`, `{train,val}/*.jpg`. */
import { invalidSource } from './source-errors.js';

/** So many patterns a source may mean. */
const MAX_EXPANDED = 100_000;

/**
 * Expands the brace lists of a pattern, in order; the numbers of a range are as wide as its wider end if one of them begins
 * with a zero. Braces without a comma or a range stay as they are.
 *
 * @throws {@link TapirError} `SOURCE_INVALID` for more than 100 000 results.
 */
export function expandBraces(pattern: string): string[] {
  let done: string[] = [];
  let rest = [''];
  // The braces that are looked at, from left to right; what lies inside of them is expanded on its own.
  for (let text = pattern; ;) {
    const list = findList(text);
    const ends = list ? list.items : [''];
    const before = text.slice(0, list ? list.start : text.length);
    if (rest.length * ends.length > MAX_EXPANDED) throw tooMany(pattern);
    done = rest.flatMap((start) => ends.map((end) => start + before + end));
    if (!list) return done;
    rest = done;
    text = text.slice(list.end);
  }
}

interface BraceList {
  readonly start: number;
  /** Behind the closing brace. */
  readonly end: number;
  readonly items: readonly string[];
}

/** The first braces of a text that hold a list or a range. */
function findList(text: string): BraceList | undefined {
  for (let start = text.indexOf('{'); start >= 0; start = text.indexOf('{', start + 1)) {
    if (text[start - 1] === '\\') continue;
    const parts = splitBraces(text, start);
    if (!parts) continue;
    const { end, inner } = parts;
    if (inner.length > 1) return { start, end, items: inner.flatMap(expandBraces) };
    const items = expandRange(inner[0]!, text);
    if (items) return { start, end, items };
  }
  return undefined;
}

/** What lies between the commas of the braces that open at a place; undefined if they do not close. */
function splitBraces(text: string, start: number): { end: number; inner: string[] } | undefined {
  const inner: string[] = [];
  let from = start + 1;
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const sign = text[at];
    if (sign === '\\') at++;
    else if (sign === '{') depth++;
    else if (sign === ',' && depth === 1) {
      inner.push(text.slice(from, at));
      from = at + 1;
    } else if (sign === '}' && --depth === 0) {
      inner.push(text.slice(from, at));
      return { end: at + 1, inner };
    }
  }
  return undefined;
}

/** `000..009` → `000`, `001`, …; downwards too. */
function expandRange(text: string, pattern: string): string[] | undefined {
  const match = /^(\d{1,15})\.\.(\d{1,15})$/.exec(text);
  if (!match) return undefined;
  const [first, last] = [match[1]!, match[2]!];
  const isPadded = [first, last].some((number) => number.length > 1 && number.startsWith('0'));
  const width = isPadded ? Math.max(first.length, last.length) : 0;
  const [from, to] = [Number(first), Number(last)];
  const count = Math.abs(to - from) + 1;
  if (count > MAX_EXPANDED) throw tooMany(pattern);
  const step = to < from ? -1 : 1;
  return Array.from({ length: count }, (_, i) => String(from + i * step).padStart(width, '0'));
}

function tooMany(pattern: string): Error {
  return invalidSource(pattern, `its braces mean more than ${MAX_EXPANDED} names`);
}
