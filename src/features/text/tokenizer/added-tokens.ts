/** Added tokens: texts such as `<|endoftext|>` that stand for one token each and are found before the text is split. */

/** An entry of section `added_tokens` of a tokenizer.json. */
export interface AddedToken {
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

const WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]/u;

/**
 * Makes the search for added tokens: from the left, the longest one first.
 *
 * @param tokens - By the content to look for.
 */
export function createTokenSplitter(tokens: ReadonlyMap<string, AddedToken>): (text: string) => TextPiece[] {
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
