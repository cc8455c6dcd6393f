/** What some models do with a text before the tokenizer, in Python. */

/** Changes a text before it is tokenized. */
export type Cleaner = (text: string) => string;

/** Python's string.punctuation. */
const PUNCTUATION = /[!-/:-@[-`{-~]/g;
/** What str.split() and \s of Python's re take for white space: Unicode's, and four separators of ASCII. */
// oxlint-disable-next-line no-control-regex -- the separators
const SPACES = /[\p{White_Space}\u{1c}-\u{1f}]+/gu;

/** `" ".join(text.split())`. */
export function collapseSpaces(text: string): string {
  return text.replaceAll(SPACES, ' ').replaceAll(/^ | $/g, '');
}

/** As Immich cleans texts for OpenCLIP models whose configuration says `clean: canonicalize`: spaces first. */
export function cleanForOpenClip(text: string): string {
  return collapseSpaces(text).replaceAll(PUNCTUATION, '').toLowerCase();
}

/** As SiglipTokenizer of transformers cleans texts: spaces last. */
export function canonicalize(text: string, lowerCases: boolean): string {
  const lower = lowerCases ? text.toLowerCase() : text;
  return collapseSpaces(lower.replaceAll(PUNCTUATION, ''));
}
