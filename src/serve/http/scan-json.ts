/**
 * JSON from callers, bounded before it is parsed. `JSON.parse` blocks the event loop for a second per megabyte of tiny objects, and
 * takes many times their memory: so nesting and the number of values are limited.
 */
import { endOfText } from '../../base/read-json.js';
import { HttpError } from './http-error.js';

/** Deepest nesting of a body. */
const MAX_DEPTH = 32;
/** Maximum number of values; parsing so many takes a few milliseconds. */
const MAX_VALUES = 65_536;

const [QUOTE, COMMA] = [0x22, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Throws {@link HttpError} `REQUEST_INVALID` for text that is not JSON in UTF-8, is nested too deeply, or has too many values. */
export function scanJson(bytes: Buffer): unknown {
  let depth = 0;
  let values = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      if (++depth > MAX_DEPTH) throw invalid(`it is nested more than ${MAX_DEPTH} levels deep`);
      values++;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) depth--;
    else if (byte === COMMA) values++;
    else if (byte === QUOTE) at = endOfText(bytes, at);
    if (values > MAX_VALUES) throw invalid(`it has more than ${MAX_VALUES} values`);
  }
  return parse(bytes);
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
