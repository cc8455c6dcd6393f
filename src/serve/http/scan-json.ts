/**
 * JSON from callers, bounded before it is parsed. `JSON.parse` blocks the event loop for a second per megabyte of tiny objects, and
 * takes many times their memory: so nesting and the number of values are limited, and lists of numbers stay bytes.
 */
import { endOfText } from '../../base/read-json.js';
import { HttpError } from './http-error.js';

export interface ScannedJson {
  /** The value. A list of elements is replaced by `[k]`, where `k` is its place in `lists`. */
  readonly json: unknown;
  /** The bytes of each list of elements, brackets included. */
  readonly lists: readonly Uint8Array[];
}

/** Deepest nesting of a body, and of a list of elements. */
const MAX_DEPTH = 32;
/** Maximum number of values besides the elements of lists; parsing so many takes a few milliseconds. */
const MAX_VALUES = 65_536;

const [QUOTE, COLON, COMMA] = [0x22, 0x3a, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * @param listKey - Lists under this key, at any depth, are lists of elements: they may hold anything but objects, and stay bytes.
 * @throws {@link HttpError} `REQUEST_INVALID` for text that is not JSON in UTF-8, is nested too deeply, or has too many values.
 */
export function scanJson(bytes: Buffer, listKey?: string): ScannedJson {
  const lists: Uint8Array[] = [];
  const pieces: Uint8Array[] = [];
  let copied = 0;
  let depth = 0;
  let values = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      if (++depth > MAX_DEPTH) throw invalid(`it is nested more than ${MAX_DEPTH} levels deep`);
      values++;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) depth--;
    else if (byte === COMMA) values++;
    else if (byte === QUOTE) {
      const start = at;
      at = endOfText(bytes, at);
      const list = listKey === undefined ? -1 : startOfList(bytes, start, at, listKey);
      if (list >= 0) {
        const end = endOfList(bytes, list);
        pieces.push(bytes.subarray(copied, list), Buffer.from(`[${lists.length}]`));
        lists.push(bytes.subarray(list, end));
        copied = end;
        at = end - 1;
      }
    }
    if (values > MAX_VALUES) throw invalid(`it has more than ${MAX_VALUES} values`);
  }
  pieces.push(bytes.subarray(copied));
  return { json: parse(pieces.length === 1 ? bytes : Buffer.concat(pieces)), lists };
}

function invalid(reason: string, cause?: unknown): HttpError {
  const message = `the body cannot be read as JSON: ${reason}`;
  return new HttpError('REQUEST_INVALID', message, cause === undefined ? {} : { cause });
}

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    // The parser's own message repeats the text, which may be anything.
    throw invalid('it is not JSON in UTF-8', error);
  }
}

/** The place of the list that follows the text if the text is the key of a list of elements; else -1. */
function startOfList(bytes: Buffer, start: number, end: number, listKey: string): number {
  const colon = skipSpace(bytes, end + 1);
  if (bytes[colon] !== COLON) return -1;
  const list = skipSpace(bytes, colon + 1);
  return bytes[list] === OPEN_LIST && isKey(bytes, start, end, listKey) ? list : -1;
}

/** Whether a quoted text says the key. Each letter may be escaped, as `\u0061`. */
function isKey(bytes: Buffer, start: number, end: number, key: string): boolean {
  if (end - start - 1 > key.length * '\\u0000'.length) return false;
  const text = bytes.toString('latin1', start, end + 1);
  if (!text.includes('\\')) return text === JSON.stringify(key);
  try {
    return JSON.parse(text) === key;
  } catch {
    return false;
  }
}

function skipSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  return at;
}

/** The place after a list of elements. */
function endOfList(bytes: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === OPEN_LIST) {
      if (++depth > MAX_DEPTH) throw invalid(`a list is nested more than ${MAX_DEPTH} levels deep`);
    } else if (byte === CLOSE_LIST) {
      if (--depth === 0) return at + 1;
    } else if (byte === QUOTE) at = endOfText(bytes, at);
    else if (byte === OPEN_OBJECT) throw invalid('a list of elements holds an object');
  }
  throw invalid('a list does not end');
}
