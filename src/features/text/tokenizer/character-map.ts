/**
 * sentencepiece's character map, which multilingual tokenizers carry as `precompiled_charsmap`: a double-array trie (Darts) of UTF-8
 * texts, and the texts that replace them. The same search as in the crate spm_precompiled.
 */

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** A grapheme of more bytes is replaced character by character. */
const MOST_GRAPHEME_BYTES = 5;

/**
 * Reads a character map.
 *
 * @param base64 - Size of the trie in bytes (uint32), the trie, and the replacements; each ends with a zero byte.
 * @returns Replaces what the map holds.
 * @throws RangeError for a map that ends early.
 */
export function readCharacterMap(base64: string): (text: string) => string {
  const bytes = Buffer.from(base64, 'base64');
  const trieBytes = bytes.readUInt32LE(0);
  const trie = Uint32Array.from({ length: trieBytes / 4 }, (_, i) => bytes.readUInt32LE(4 + 4 * i));
  const texts = bytes.subarray(4 + trieBytes);
  const replace = (text: string): string | undefined => {
    const at = findShortest(trie, encoder.encode(text));
    return at === undefined ? undefined : decoder.decode(texts.subarray(at, texts.indexOf(0, at)));
  };
  return (text) =>
    Array.from(graphemes.segment(text), ({ segment }) => replaceGrapheme(segment, replace)).join('');
}

function replaceGrapheme(grapheme: string, replace: (text: string) => string | undefined): string {
  if (Buffer.byteLength(grapheme) <= MOST_GRAPHEME_BYTES) {
    const whole = replace(grapheme);
    if (whole !== undefined) return whole;
  }
  return Array.from(grapheme, (character) => replace(character) ?? character).join('');
}

/** Searches the trie for the shortest prefix of a key. Returns where its replacement begins. */
function findShortest(trie: Uint32Array, key: Uint8Array): number | undefined {
  let unit = trie[0] ?? 0;
  let at = offsetOf(unit);
  for (const byte of key) {
    if (byte === 0) return undefined;
    at ^= byte;
    unit = trie[at] ?? 0;
    // The label is the byte itself; the highest bit marks a value.
    if ((unit & 0x80_00_00_ff) !== byte) return undefined;
    at ^= offsetOf(unit);
    const hasValue = ((unit >>> 8) & 1) === 1;
    if (hasValue) return (trie[at] ?? 0) & 0x7f_ff_ff_ff;
  }
  return undefined;
}

function offsetOf(unit: number): number {
  return (unit >>> 10) << ((unit & 0x2_00) >>> 6);
}
