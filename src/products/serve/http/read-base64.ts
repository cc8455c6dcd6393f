/** Images as base64 text in JSON. */
import { HttpError } from './http-error.js';

/** Decodes base64, also with the line breaks of MIME. `what` says in the message where the text was. Throws `REQUEST_INVALID`. */
export function readBase64(what: string, given: string): Uint8Array {
  const text = /\s/.test(given) ? given.replaceAll(/\s+/g, '') : given;
  const bytes = Buffer.from(text, 'base64');
  // Buffer skips characters that are not base64, so the result is too short.
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  if (bytes.length === (text.length / 4) * 3 - padding) return bytes;
  throw new HttpError('REQUEST_INVALID', `${what} must hold images in base64`);
}
