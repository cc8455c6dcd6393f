/** Text from files and from the network, and addresses, as messages and pages show them. */

/**
 * Control characters act on a terminal; halves of characters and marks that reverse the direction of text make a name look like
 * another one. Emoji keep their joiners.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/gu;

/** A name in which such characters are spelled out as `\u202e`, line ends too. */
export function shown(name: string): string {
  return name.replace(UNPRINTABLE, spellOut);
}

/** Lines of text, or JSON, with the same characters spelled out. JSON keeps its value. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (char) => (char === '\n' ? char : spellOut(char)));
}

/** A character as JavaScript and JSON write it in a string. */
export function spellOut(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** A name that is not UTF-8, with each byte beyond ASCII as `\xe4`: names that differ stay different. */
export function spellBytes(name: Uint8Array): string {
  const shownBytes = Array.from(name, (byte) =>
    byte < 0x80 ? String.fromCharCode(byte) : `\\x${byte.toString(16)}`,
  );
  return shownBytes.join('');
}

/** Returns an address for a message: without user, password and query, which may hold a signature. */
export function labelOfUrl(text: string): string {
  if (!URL.canParse(text)) return 'a URL that cannot be read';
  const { origin, pathname, protocol } = new URL(text);
  return origin === 'null' ? protocol : origin + pathname;
}

/** A count with its noun: `1 image`, `24 images`. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`;
}
