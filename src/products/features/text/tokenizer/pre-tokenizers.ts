/**
 * The pre-tokenizers of a tokenizer.json, as the Rust crate `tokenizers` computes them: nearly all are splits by a pattern. The npm
 * package's own differ in white space, digits, punctuation, what they do with the matches, and characters beyond U+FFFF.
 */
import { WORD_CLASS } from './added-tokens.js';
import { entryOf, listOf, readPattern, type PartConfig } from './normalizers.js';
import type { TokenizersPackage } from './open-tokenizers.js';

/** A part of a normalised text. */
interface Piece {
  readonly text: string;
  /** Whether it begins where the input begins. */
  readonly isStart: boolean;
}

/** Splits a part further. */
export type PreTokenizer = (piece: Piece) => Piece[];

type Maker = (config: PartConfig, from: TokenizersPackage) => PreTokenizer;

const GPT2_WORDS =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
const WORDS = new RegExp(String.raw`[${WORD_CLASS}]+|[^${WORD_CLASS}\p{White_Space}]+`, 'gu');
const PUNCTUATION = /[\p{P}!-/:-@[-`{-~]/gu;
const SPACE = /\p{White_Space}/gu;

/** A pre-tokenizer by its type. */
const MAKERS: Readonly<Record<string, Maker>> = {
  Sequence: ({ pretokenizers }, from) =>
    inOrder(...listOf(pretokenizers).map((config) => createPreTokenizer(config, from))),
  Whitespace: () => split(WORDS, 'Removed', true),
  WhitespaceSplit: () => split(SPACE, 'Removed'),
  BertPreTokenizer: () => inOrder(split(SPACE, 'Removed'), split(PUNCTUATION, 'Isolated')),
  Digits: ({ individual_digits: alone }) => split(/\p{N}/gu, alone === true ? 'Isolated' : 'Contiguous'),
  Punctuation: ({ behavior }) => split(PUNCTUATION, behavior ?? 'Isolated'),
  CharDelimiterSplit: ({ delimiter }, from) => split(readPattern({ String: delimiter }, from), 'Removed'),
  FixedLength: ({ length }) => split(new RegExp(String.raw`[\s\S]{1,${String(length)}}`, 'gu'), 'Isolated'),
  Split: ({ pattern, behavior, invert }, from) =>
    split(readPattern(pattern, from), behavior, invert === true),
  ByteLevel: ({ add_prefix_space: prefix, use_regex: splits }, from) => {
    const encode = new from.ByteLevelPreTokenizer({ use_regex: false });
    const steps = [change((text) => encode(text).join(''))];
    if (splits !== false) steps.unshift(split(GPT2_WORDS, 'Isolated'));
    if (prefix === true) steps.unshift(change((text) => (text.startsWith(' ') ? text : ` ${text}`)));
    return inOrder(...steps);
  },
  Metaspace: createMetaspace,
};

/** Makes a pre-tokenizer; null splits nothing. Throws Error for a type or behaviour that is not known here; the caller names the file. */
export function createPreTokenizer(config: PartConfig | null, from: TokenizersPackage): PreTokenizer {
  return config === null ? (piece) => [piece] : entryOf(MAKERS, config.type, 'pre-tokenizer')(config, from);
}

/** Spaces become a visible character, which begins a word. */
function createMetaspace(config: PartConfig, from: TokenizersPackage): PreTokenizer {
  const { replacement } = config;
  if (typeof replacement !== 'string') throw new Error('pre-tokenizer "Metaspace" has no replacement');
  const scheme = config['prepend_scheme'] ?? 'always';
  // Files of older versions have this field alone.
  if (config['add_prefix_space'] === false && scheme !== 'never')
    throw new Error('pre-tokenizer "Metaspace" says add_prefix_space false, and prepends');
  const mark: PreTokenizer = ({ text, isStart }) => {
    const marked = text.replaceAll(' ', () => replacement);
    const prepends = scheme === 'always' || (scheme === 'first' && isStart);
    return [{ text: prepends && !marked.startsWith(replacement) ? replacement + marked : marked, isStart }];
  };
  if (config['split'] === false) return mark;
  return inOrder(mark, split(readPattern({ String: replacement }, from), 'MergedWithNext'));
}

function inOrder(...steps: readonly PreTokenizer[]): PreTokenizer {
  return (piece) => steps.reduce((pieces, step) => pieces.flatMap(step), [piece]);
}

function change(step: (text: string) => string): PreTokenizer {
  return ({ text, isStart }) => [{ text: step(text), isStart }];
}

/** From where to where, and whether the pattern matches there (or does not, if it is inverted). */
type Range = readonly [start: number, end: number, isMatch: boolean];

/** What becomes of the matches. */
const BEHAVIORS: Readonly<Record<string, (ranges: readonly Range[]) => readonly Range[]>> = {
  Isolated: (ranges) => ranges,
  Removed: (ranges) => ranges.filter(([, , isMatch]) => !isMatch),
  Contiguous: (ranges) => joined(ranges, (range, last) => range[2] === last[2]),
  MergedWithPrevious: (ranges) => joined(ranges, (range, last) => range[2] && !last[2]),
  MergedWithNext: (ranges) => joined(ranges, (range, last) => last[2] && !range[2]),
};

/** Joins each range to the one before it where `joins` says so; `last` is that one alone. */
function joined(ranges: readonly Range[], joins: (range: Range, last: Range) => boolean): Range[] {
  const found: Range[] = [];
  for (const [i, range] of ranges.entries()) {
    if (i > 0 && joins(range, ranges[i - 1]!)) found.push([found.pop()![0], range[1], false]);
    else found.push(range);
  }
  return found;
}

function split(pattern: RegExp, behavior: unknown, invert: boolean = false): PreTokenizer {
  const choose = entryOf(BEHAVIORS, behavior, 'a split with behavior');
  return ({ text, isStart }) =>
    choose(rangesOf(text, pattern, invert))
      .filter(([start, end]) => end > start)
      .map(([start, end]) => ({ text: text.slice(start, end), isStart: isStart && start === 0 }));
}

function rangesOf(text: string, pattern: RegExp, invert: boolean): Range[] {
  const ranges: Range[] = [];
  let from = 0;
  for (const { 0: match, index } of text.matchAll(pattern)) {
    if (index > from) ranges.push([from, index, invert]);
    from = index + match.length;
    ranges.push([index, from, !invert]);
  }
  if (from < text.length) ranges.push([from, text.length, invert]);
  return ranges;
}
