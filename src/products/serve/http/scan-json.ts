/**
 * JSON from callers, bounded before it is parsed. `JSON.parse` blocks the event loop for a second per megabyte of tiny objects, and
 * takes many times their memory: so nesting and the number of values are limited.
 */
import { checkJsonExtent } from '../../../base/read-json.js';
import { reasonOf } from '../../../base/errors.js';
import { HttpError } from './http-error.js';

/** The deepest nesting of a body, and its values: parsing so many takes a few milliseconds. */
const MOST = { depth: 32, values: 65_536 };

/** Throws {@link HttpError} `REQUEST_INVALID` for text that is not JSON in UTF-8, is nested too deeply, or has too many values. */
export function scanJson(bytes: Buffer): unknown {
  if (bytes.length === 0) throw invalid('it is empty; /openapi.json says what a body holds');
  try {
    checkJsonExtent(bytes, MOST);
  } catch (error) {
    throw invalid(reasonOf(error));
  }
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    // The parser's own message repeats the text, which may be anything.
    throw invalid('it is not JSON in UTF-8', error);
  }
}

function invalid(reason: string, cause?: unknown): HttpError {
  const message = `the body cannot be read as JSON: ${reason}`;
  return new HttpError('REQUEST_INVALID', message, cause === undefined ? {} : { cause });
}
