/** The texts that stand for one token and are found before a text is split: section `added_tokens` of a tokenizer.json. */
import type { Normalizer } from './normalizers.js';

/** An entry: a text such as `<|endoftext|>`. */
export interface AddedToken {
  /** Negative for a token that only tokenizer_config.json names. */
  readonly id: number;
  readonly content: string;
  /** Whether it counts only between characters that belong to no word. */
  readonly single_word: boolean;
  /** Whether white space before it belongs to it. */
  readonly lstrip: boolean;
  /** Whether white space after it belongs to it. */
  readonly rstrip: boolean;
  /** Whether it is looked for in the normalised text. */
  readonly normalized: boolean;
}

/** A piece of text: an added token, or text that is still to be split. */
export type TextPiece = { readonly id: number } | { readonly text: string };

/**
 * Gives tokens the ids that Python gives them, whatever the file says: that of the vocabulary, or the next one behind it. A content that
 * comes twice, or is empty, counts not.
 */
export function numberTokens(
  tokens: readonly AddedToken[],
  vocabulary: ReadonlyMap<string, number>,
): AddedToken[] {
  const numbered = new Map<string, AddedToken>();
  let next = vocabulary.size;
  for (const token of tokens) {
    if (token.content === '' || numbered.has(token.content)) continue;
    const id = vocabulary.get(token.content) ?? next;
    next = Math.max(next, id + 1);
    numbered.set(token.content, { ...token, id });
  }
  return [...numbered.values()];
}

/** What the crate's regular expressions take for a character of a word. */
export const WORD_CLASS: string = String.raw`\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}`;
const WORD = new RegExp(`[${WORD_CLASS}]`, 'u');

/**
 * Makes the search for added tokens: from the left, the longest one first.
 *
 * @param added - The tokens that are looked for, by their content as `change` makes it.
 * @throws Error for two tokens that are one text then; the caller names the file.
 */
export function createTokenSplitter(
  added: readonly AddedToken[],
  change: Normalizer,
): (text: string) => TextPiece[] {
  const tokens = new Map(added.map((token) => [change(token.content), token]));
  if (tokens.size < added.length) throw new Error('two of its added tokens are the same normalised text');
  const contents = [...tokens.keys()].filter((content) => content !== '');
  if (contents.length === 0) return (text) => (text === '' ? [] : [{ text }]);
  const escaped = contents
    .toSorted((a, b) => b.length - a.length)
    .map((content) => content.replaceAll(/[$()*+./?[\\\]^{|}]/g, String.raw`\$&`));
  const pattern = new RegExp(escaped.join('|'), 'gu');
  return (text) => {
    const pieces: TextPiece[] = [];
    let from = 0;
    for (const { 0: content, index } of text.matchAll(pattern)) {
      const token = tokens.get(content)!;
      let [start, end] = [index, index + content.length];
      if (token.single_word && !standsAlone(text, start, end)) continue;
      if (token.lstrip) start = Math.max(from, text.slice(0, start).search(/\p{White_Space}*$/u));
      if (token.rstrip) end += /^\p{White_Space}*/u.exec(text.slice(end))![0].length;
      if (start > from) pieces.push({ text: text.slice(from, start) });
      pieces.push({ id: token.id });
      from = end;
    }
    if (from < text.length) pieces.push({ text: text.slice(from) });
    return pieces;
  };
}

function standsAlone(text: string, start: number, end: number): boolean {
  const before = Array.from(text.slice(Math.max(0, start - 2), start)).at(-1);
  const after = Array.from(text.slice(end, end + 2)).at(0);
  return !(before !== undefined && WORD.test(before)) && !(after !== undefined && WORD.test(after));
}
