/** Text → token ids, with the ids of Python's `tokenizers`. */
import { createContext, Script, type Context } from 'node:vm';
import { reasonOf, TapirError } from '../../../base/errors.js';
import { createNormalizer, type Normalizer, type PartConfig } from './normalizers.js';
import { openTokenizers, type PackageTokenizer } from './open-tokenizers.js';
import { rewritePreTokenizer } from './pre-tokenizers.js';
import { tokenizerInvalid } from './tokenizer-invalid.js';

/** The sections of a tokenizer.json. */
export interface TokenizerJson {
  readonly model: PartConfig;
  readonly normalizer?: PartConfig | null;
  readonly pre_tokenizer?: PartConfig | null;
  readonly post_processor?: PartConfig | null;
  readonly added_tokens?: readonly AddedToken[];
  readonly padding?: PartConfig | null;
  readonly truncation?: PartConfig | null;
}

/** Splits texts into token ids. Made by {@link createTokenizer}. */
export interface Tokenizer {
  /** Number of tokens that stand around every text: start, end. */
  readonly added: number;
  /**
   * The ids of a text, with the tokens around it.
   *
   * @param most - Longest list. The text is cut, and the tokens around it stay, as in Python.
   * @param side - The end of the text that is cut off.
   */
  encode(text: string, most: number, side: 'left' | 'right'): number[];
  /** The id of a token; undefined if there is no such token. */
  idOf(token: string): number | undefined;
}

/** Stands for the text when the tokens around it are looked up. */
const MARK = '\u0000text\u0000';

/**
 * Makes a tokenizer.
 *
 * @remarks Models, splits by regular expressions and post-processors are the npm package's. Added tokens, normalizers, truncation and
 * the order of steps are written here, because the package's ids differ from Python's in them.
 *
 * @param json - A tokenizer.json.
 * @param path - Where it is from, for messages.
 * @throws {@link TapirError} `TOKENIZER_INVALID` for a part that cannot be followed; `DEPENDENCY_MISSING` without the package.
 */
export function createTokenizer(json: TokenizerJson, path: string): Tokenizer {
  const from = openTokenizers();
  return inFile(path, () => {
    const parts = new from.Tokenizer(
      {
        ...json,
        normalizer: null,
        decoder: null,
        pre_tokenizer: rewritePreTokenizer(json.pre_tokenizer ?? null),
        post_processor: json.post_processor ?? null,
        added_tokens: json.added_tokens ?? [],
      },
      {},
    );
    const steps = createNormalizer(json.normalizer ?? null, from);
    const normalize: Normalizer = (text) => inFile(path, () => steps(text));
    const tokenizer = assemble(parts, normalize, json.added_tokens ?? [], path);
    if (!hasPatterns([json.normalizer, json.pre_tokenizer])) return tokenizer;
    const encode: Tokenizer['encode'] = (...given) =>
      inFile(path, () => inTime(() => tokenizer.encode(...given)));
    return { ...tokenizer, encode };
  });
}

/** Runs a step that knows no path: its errors are those of the file. */
function inFile<Result>(path: string, step: () => Result): Result {
  try {
    return step();
  } catch (error) {
    throw error instanceof TapirError ? error : tokenizerInvalid(path, reasonOf(error), error);
  }
}

/** The longest time that the patterns of a file may take for one text: those of tokenizers take milliseconds. */
const MOST_MS = 2000;
const call = new Script('step()');
let context: Context | undefined;

/**
 * Runs a step that applies regular expressions of a file, and ends it when it takes too long: some patterns need years for some texts.
 * Only a script of `node:vm` can be ended from outside.
 */
function inTime<Result>(step: () => Result): Result {
  context ??= createContext({});
  context['step'] = step;
  try {
    return call.runInContext(context, { timeout: MOST_MS }) as Result;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    throw new Error(`its patterns take more than ${MOST_MS} ms for a text of this length`, { cause: error });
  } finally {
    context['step'] = undefined;
  }
}

/** Whether a part of a tokenizer.json holds regular expressions. */
function hasPatterns(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false;
  return Object.hasOwn(part, 'Regex') || Object.values(part).some(hasPatterns);
}

function assemble(
  parts: PackageTokenizer,
  normalize: Normalizer,
  tokens: readonly AddedToken[],
  path: string,
): Tokenizer {
  const ids = new Map(parts.model.tokens_to_ids);
  for (const { content, id } of tokens) ids.set(content, id);
  const idOf = (token: string): number => {
    const id = ids.get(token) ?? parts.model.unk_token_id;
    if (id === undefined)
      throw tokenizerInvalid(path, `it has no id for "${token}", and no token for what it does not know`);
    return id;
  };
  const splitPlain = createTokenSplitter(byContent(tokens, false, (content) => content));
  const splitNormalized = createTokenSplitter(byContent(tokens, true, normalize));
  const encodeWords = ({ text }: { readonly text: string }, section: number): number[] => {
    const words = parts.pre_tokenizer ? parts.pre_tokenizer(text, { section_index: section }) : [text];
    // Word by word, so that unknown characters of two words do not become one token.
    return words.flatMap((word) => parts.model([word]).map(idOf));
  };
  const [before, after] = tokensAround(parts, idOf);
  const added = before.length + after.length;
  return {
    added,
    idOf: (token) => ids.get(token),
    encode(text, most, side) {
      const pieces = splitPlain(text).flatMap((piece): TextPiece[] =>
        'id' in piece ? [piece] : splitNormalized(normalize(piece.text)),
      );
      const own = pieces.flatMap((piece, i) => ('id' in piece ? [piece.id] : encodeWords(piece, i)));
      const room = Math.max(0, most - added);
      const kept = side === 'right' ? own.slice(0, room) : own.slice(own.length - Math.min(room, own.length));
      return [...before, ...kept, ...after];
    },
  };
}

function byContent(
  tokens: readonly AddedToken[],
  normalized: boolean,
  change: Normalizer,
): ReadonlyMap<string, AddedToken> {
  const chosen = tokens.filter((token) => token.normalized === normalized);
  return new Map(chosen.map((token) => [change(token.content), token]));
}

/** The ids that the post-processor puts before and after a text. */
function tokensAround(
  { post_processor: process }: PackageTokenizer,
  idOf: (token: string) => number,
): readonly [before: number[], after: number[]] {
  if (process === null) return [[], []];
  const { tokens } = process([MARK], null, true);
  const at = tokens.indexOf(MARK);
  return [tokens.slice(0, at).map(idOf), tokens.slice(at + 1).map(idOf)];
}

/**
 * An entry of section `added_tokens` of a tokenizer.json: a text such as `<|endoftext|>` that stands for one token and is found before
 * the text is split.
 */
interface AddedToken {
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
type TextPiece = { readonly id: number } | { readonly text: string };

const WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]/u;

/**
 * Makes the search for added tokens: from the left, the longest one first.
 *
 * @param tokens - By the content to look for.
 */
function createTokenSplitter(tokens: ReadonlyMap<string, AddedToken>): (text: string) => TextPiece[] {
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
