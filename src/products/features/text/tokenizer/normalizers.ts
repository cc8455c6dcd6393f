/**
 * The normalizers of a tokenizer.json, as the Rust crate `tokenizers` computes them.
 *
 * The npm package's own differ from the crate's in four ways: what counts as white space (U+FEFF, U+0085), the final sigma of lower case,
 * ideographs beyond U+FFFF, and the character map of sentencepiece, which the package approximates.
 */
import type { TokenizersPackage } from './open-tokenizers.js';

/** Changes a text before it is split. */
export type Normalizer = (text: string) => string;

/** A part of a tokenizer.json: its type and its settings. */
export interface PartConfig {
  readonly type?: unknown;
  readonly [field: string]: unknown;
}

/** Far above the texts of towers. */
const MOST_CHARACTERS = 2 ** 22;

type Maker = (config: PartConfig, from: TokenizersPackage) => Normalizer;

/** A normalizer by its type. */
const MAKERS: Readonly<Record<string, Maker>> = {
  Sequence: ({ normalizers }, from) => {
    const steps = listOf(normalizers).map((config) => createNormalizer(config, from));
    return (text) => steps.reduce((changed, step) => step(checkLength(changed)), text);
  },
  NFC: () => (text) => text.normalize('NFC'),
  NFD: () => (text) => text.normalize('NFD'),
  NFKC: () => (text) => text.normalize('NFKC'),
  NFKD: () => (text) => text.normalize('NFKD'),
  Lowercase: () => lowerCase,
  Strip: ({ strip_left: left, strip_right: right }) => {
    return (text) => {
      const begun = left === true ? text.replace(/^\p{White_Space}+/u, '') : text;
      return right === true ? begun.replace(/\p{White_Space}+$/u, '') : begun;
    };
  },
  StripAccents: () => (text) => text.replaceAll(/\p{M}/gu, ''),
  Prepend:
    ({ prepend }) =>
    (text) =>
      text === '' ? text : `${String(prepend)}${text}`,
  Replace: ({ pattern, content }, from) => {
    const found = readPattern(pattern, from);
    if (typeof content !== 'string') throw new Error('normalizer "Replace" has no content');
    return (text) => text.replaceAll(found, () => content);
  },
  Precompiled: ({ precompiled_charsmap: map }) => {
    return typeof map === 'string' && map !== '' ? readCharacterMap(map) : (text) => text;
  },
  BertNormalizer: (config) => createBertNormalizer(config),
};

/** Makes a normalizer; null changes nothing. Throws Error for a type that is not known here; the caller names the file. */
export function createNormalizer(config: PartConfig | null, from: TokenizersPackage): Normalizer {
  return config === null ? (text) => text : entryOf(MAKERS, config.type, 'normalizer')(config, from);
}

/** The entry of a table that a file names. Throws Error for a name that is not known here. */
export function entryOf<Entry>(table: Readonly<Record<string, Entry>>, name: unknown, what: string): Entry {
  if (Object.hasOwn(table, String(name))) return table[String(name)]!;
  throw new Error(`${what} "${String(name)}" is not supported`);
}

/** Far above the patterns of tokenizers, which are made of classes: longer ones take the engine of regular expressions minutes. */
const MOST_PATTERN = 65_536;

/**
 * Reads a text or a regular expression of Oniguruma, which the package translates.
 *
 * @throws Error for what the package cannot translate, or would translate to something else; the caller names the file.
 */
export function readPattern(pattern: unknown, from: TokenizersPackage): RegExp {
  const { Regex: regex } = (pattern ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof regex === 'string') {
    if (regex.length > MOST_PATTERN)
      throw new Error(`it has a pattern of more than ${MOST_PATTERN} characters`);
    const operators = regex.replaceAll(/\\.|\[[^\]]*\]/gsu, '_');
    if (/\(\?>|[*+?]\+/.test(operators))
      throw new Error(`atomic groups and possessive quantifiers, as in "${regex}", are not supported`);
  }
  const found = new from.ReplaceNormalizer({ pattern }).pattern;
  if (''.search(found) === 0)
    throw new Error(`a pattern that matches nothing at all, as "${found.source}" does, is not supported`);
  return found;
}

/** Refuses text that the steps before have made too long: a few replacements can double it each. */
function checkLength(text: string): string {
  if (text.length > MOST_CHARACTERS)
    throw new Error(`its normalizers make a text of more than ${MOST_CHARACTERS} characters`);
  return text;
}

/** The parts in a list of a tokenizer.json. */
export function listOf(parts: unknown): readonly PartConfig[] {
  return Array.isArray(parts) ? (parts as readonly PartConfig[]) : [];
}

/** Lower case of each character alone: a capital sigma becomes σ also at the end of a word. */
function lowerCase(text: string): string {
  return text.replaceAll('Σ', 'σ').toLowerCase();
}

const REMOVED = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u{fffd}]/gu;
const IDEOGRAPHS =
  /[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{f900}-\u{faff}\u{2f800}-\u{2fa1f}]/gu;

function createBertNormalizer(config: PartConfig): Normalizer {
  const { clean_text: clean, handle_chinese_chars: ideographs, lowercase, strip_accents: strip } = config;
  const stripsAccents = strip ?? lowercase;
  return (text) => {
    let changed = text;
    if (clean === true)
      changed = changed
        .replaceAll(/[\t\n\r]/g, ' ')
        .replaceAll(REMOVED, '')
        .replaceAll(/\p{White_Space}/gu, ' ');
    if (ideographs === true) changed = changed.replaceAll(IDEOGRAPHS, ' $& ');
    if (stripsAccents === true) changed = changed.normalize('NFD').replaceAll(/\p{Mn}/gu, '');
    return lowercase === true ? lowerCase(changed) : changed;
  };
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** A grapheme of more bytes is replaced character by character. */
const MOST_GRAPHEME_BYTES = 5;

/**
 * Reads sentencepiece's character map, which multilingual tokenizers carry as `precompiled_charsmap`: a double-array trie (Darts) of
 * UTF-8 texts, and the texts that replace them. The same search as in the crate spm_precompiled.
 *
 * @param base64 - Size of the trie in bytes (uint32), the trie, and the replacements; each ends with a zero byte.
 * @returns Replaces what the map holds.
 * @throws RangeError for a map that ends early.
 */
function readCharacterMap(base64: string): (text: string) => string {
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
