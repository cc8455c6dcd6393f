/**
 * The normalizers of a tokenizer.json, as the Rust crate `tokenizers` computes them.
 *
 * The npm package's own differ from the crate's in what they take for white space (U+FEFF, U+0085), in the final sigma of lower case,
 * in ideographs beyond U+FFFF, and in the character map of sentencepiece, which the package approximates.
 */
import { readCharacterMap } from './character-map.js';
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
    // The package passes the content to String.replaceAll, for which a dollar sign is special.
    const replacement = ((content as string | undefined) ?? '').replaceAll('$', '$$$$');
    const step = new from.ReplaceNormalizer({ type: 'Replace', pattern, content: replacement });
    return (text) => step(text);
  },
  Precompiled: ({ precompiled_charsmap: map }) => {
    return typeof map === 'string' && map !== '' ? readCharacterMap(map) : (text) => text;
  },
  BertNormalizer: (config) => createBertNormalizer(config),
};

/**
 * Makes a normalizer.
 *
 * @param config - Section `normalizer` of a tokenizer.json; null changes nothing.
 * @throws Error for a type that is not known here; the caller names the file.
 */
export function createNormalizer(config: PartConfig | null, from: TokenizersPackage): Normalizer {
  if (config === null) return (text) => text;
  const make = Object.hasOwn(MAKERS, String(config.type)) ? MAKERS[String(config.type)] : undefined;
  if (make === undefined) throw new Error(`normalizer "${String(config.type)}" is not supported`);
  return make(config, from);
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
