/** Headers that callers add to requests: credentials, mostly. */
import { invalidOption, isPlainObject } from '../checks.js';

/** Headers by name. */
export type RequestHeaders = Readonly<Record<string, string>>;

const NAME = /^[\w!#$%&'*+.^`|~-]+$/;
/** As one line of Latin-1. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** The client sets these itself: where it connects to, how the answer comes, and how long the connection lives. */
const OWN =
  /^(?:accept-encoding|connection|content-.+|expect|host|keep-alive|proxy-.+|range|te|trailer|transfer-encoding|upgrade)$/;

/** Returns the headers in lower case, in a frozen copy. Throws `OPTION_INVALID`, which never shows a value. */
export function checkHeaders(option: string, given: unknown): RequestHeaders {
  if (!isPlainObject(given)) throw invalidOption(option, 'an object of texts by header name', typeof given);
  const headers = new Map<string, string>();
  for (const [name, value] of Object.entries(given)) {
    const key = name.toLowerCase();
    if (!NAME.test(name) || OWN.test(key) || headers.has(key))
      throw invalidOption(
        option,
        'free of headers that are sent anyway, occur twice or have no name of HTTP',
        name,
      );
    if (typeof value !== 'string' || !VALUE.test(value))
      throw invalidOption(`${option}.${name}`, 'a text of one line, in Latin-1', undefined);
    headers.set(key, value);
  }
  return Object.freeze(Object.fromEntries(headers));
}
