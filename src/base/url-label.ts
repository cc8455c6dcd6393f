/** Addresses in messages. */

/** Returns an address for a message: without user, password and query, which may hold a signature. */
export function labelOfUrl(text: string): string {
  if (!URL.canParse(text)) return 'a URL that cannot be read';
  const { origin, pathname, protocol } = new URL(text);
  return origin === 'null' ? protocol : origin + pathname;
}
