/**
 * JSON files that others wrote. Depth and number of values are limited before `JSON.parse` runs: tiny objects take a hundred times their
 * bytes of memory, while a long text costs next to nothing.
 */
import { readFileSync, statSync } from 'node:fs';
import { reasonOf } from './errors.js';

/** Limits of JSON. */
interface JsonExtent {
  /** Objects, lists and what they hold. */
  readonly values: number;
  /** Levels of nesting. */
  readonly depth: number;
}

/** Far above what tokenizers (34 MB, two million values) and lists of labels need. */
const MOST_BYTES = 256 * 2 ** 20;
const OF_FILES: JsonExtent = { values: 4_000_000, depth: 64 };

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Reads a JSON file; `undefined` only if there is no such file. `refuse` makes the error of one that cannot be read, of the reason and the cause. */
export function readJson(
  path: string,
  refuse: (reason: string, cause: unknown) => Error,
  mostBytes: number = MOST_BYTES,
): unknown {
  try {
    const stats = statSync(path);
    // A pipe would never end.
    if (!stats.isFile()) throw new Error('it is no regular file');
    checkSize(stats.size, mostBytes);
    return parseJson(readFileSync(path), mostBytes);
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw refuse(reasonOf(error), error);
  }
}

/** Parses JSON in UTF-8. Throws an error whose message is the reason. */
export function parseJson(bytes: Buffer, mostBytes: number = MOST_BYTES): unknown {
  checkSize(bytes.length, mostBytes);
  checkJsonExtent(bytes, OF_FILES);
  try {
    // Drops a byte order mark as well.
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new Error(`it is no JSON in UTF-8 (${reasonOf(error)})`, { cause: error });
  }
}

function checkSize(bytes: number, most: number): void {
  if (bytes > most) throw new Error(`it has ${bytes} bytes, more than ${most}`);
}

/** Checks JSON before it is parsed, about 10 ns a byte. Throws an error whose message is the reason. */
export function checkJsonExtent(bytes: Buffer, most: JsonExtent): void {
  let depth = 0;
  let values = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) at = endOfText(bytes, at);
    else if (byte === COMMA) values++;
    else if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      if (++depth > most.depth) throw new Error(`it is nested more than ${most.depth} levels deep`);
      values++;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) depth--;
    if (values > most.values) throw new Error(`it has more than ${most.values} values`);
  }
}

/** The place of the quote that ends the text which starts at a quote; the last byte if the text does not end. */
export function endOfText(bytes: Buffer, start: number): number {
  for (let end = bytes.indexOf(QUOTE, start + 1); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
    let backslashes = 0;
    while (bytes[end - 1 - backslashes] === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return end;
  }
  return bytes.length - 1;
}

/** A name that is too long for the file system is the name of no file. */
function isAbsence(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR' || code === 'ENAMETOOLONG';
}
