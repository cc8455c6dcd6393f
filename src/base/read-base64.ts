/** Images as base64 text in JSON. */

/** What stands before the base64 of an image in a data URI. */
const IMAGE_URI = /^\s*data:image\/[\w.+-]+(?:;[\w-]+=[\w.-]+)*;base64,/i;

/**
 * Decodes an image in base64: bare or as a data URI, with or without padding, also with the line breaks of MIME. Returns undefined for any
 * other text.
 */
export function readBase64(given: string): Buffer | undefined {
  const [uri = ''] = IMAGE_URI.exec(given.slice(0, 256)) ?? [];
  const bare = given.slice(uri.length);
  const text = /\s/.test(bare) ? bare.replaceAll(/\s+/g, '') : bare;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const digits = text.length - padding;
  if (digits % 4 === 1 || (padding > 0 && text.length % 4 !== 0)) return undefined;
  const bytes = Buffer.from(text, 'base64');
  // Buffer skips characters that are not base64, so the result is too short. A regular expression overflows the stack at some megabytes.
  return bytes.length === Math.floor((digits * 3) / 4) ? bytes : undefined;
}
