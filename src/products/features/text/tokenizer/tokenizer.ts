/** Text → token ids, with the ids of Python's `tokenizers`. */
import { createContext, Script, type Context } from 'node:vm';
import { reasonOf, TapirError } from '../../../../base/errors.js';
import { createTokenSplitter, numberTokens, type AddedToken, type TextPiece } from './added-tokens.js';
import { createModel } from './models.js';
import { createNormalizer, type PartConfig } from './normalizers.js';
import { openTokenizers, type TokenizersPackage } from './open-tokenizers.js';
import { readTokensAround } from './post-processors.js';
import { createPreTokenizer } from './pre-tokenizers.js';

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
  /** The ids of a text, with the tokens around it. Of a text that is too long, `side` is cut off, and the tokens around it stay, as in Python. */
  encode(text: string, most: number, side: 'left' | 'right'): number[];
  /** The id of a token; undefined if the file has no such token. */
  idOf(token: string): number | undefined;
}

/**
 * Makes a tokenizer. Models and the translation of regular expressions are the npm package's. All other parts are written here, because the
 * package's ids differ from Python's in them.
 *
 * @throws {@link TapirError} `TOKENIZER_INVALID` for a part that cannot be followed; `DEPENDENCY_MISSING` without the package.
 */
export function createTokenizer(json: TokenizerJson, path: string): Tokenizer {
  const from = openTokenizers();
  return inFile(path, () => {
    const tokenizer = assemble(json, from);
    const isTimed = hasPatterns([json.normalizer, json.pre_tokenizer]);
    return {
      ...tokenizer,
      encode(...given) {
        const step = (): number[] => tokenizer.encode(...given);
        return inFile(path, () => (isTimed ? inTime(step) : step()));
      },
    };
  });
}

/** Makes the error for a file of a tokenizer that is missing or damaged, or that says what cannot be followed. */
export function tokenizerInvalid(
  path: string,
  reason: string,
  cause?: unknown,
): TapirError<'TOKENIZER_INVALID'> {
  return new TapirError('TOKENIZER_INVALID', `"${path}": ${reason}`, { details: { path, reason }, cause });
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

const PREPENDS_FIRST = /"prepend_scheme":"first"/;
/** Normalizers that may remove the beginning of a text: in the crate, no word is the first then. */
const REMOVES = /"type":"(?:BertNormalizer|Precompiled|Strip|StripAccents)"|"content":""/;

function assemble(json: TokenizerJson, from: TokenizersPackage): Tokenizer {
  const model = createModel(json.model, from);
  const tokens = numberTokens(json.added_tokens ?? [], model.ids);
  const normalize = createNormalizer(json.normalizer ?? null, from);
  if (
    PREPENDS_FIRST.test(JSON.stringify(json.pre_tokenizer)) &&
    REMOVES.test(JSON.stringify(json.normalizer))
  )
    throw new Error(
      'pre-tokenizer "Metaspace" with prepend_scheme first is not supported after this normalizer',
    );
  const preTokenize = createPreTokenizer(json.pre_tokenizer ?? null, from);
  const [before, after] = readTokensAround(json.post_processor ?? null);
  const plain = tokens.filter(({ normalized }) => !normalized);
  const splitPlain = createTokenSplitter(plain, (content) => content);
  const normalized = tokens.filter((token) => token.normalized);
  const splitNormalized = createTokenSplitter(normalized, normalize);
  if (![...before, ...after].every(Number.isSafeInteger)) throw new Error('its post-processor names no ids');
  const added = before.length + after.length;
  const stated = new Set(json.added_tokens?.filter(({ id }) => id >= 0).map(({ content }) => content));
  return {
    added,
    idOf: (token) =>
      model.ids.get(token) ?? tokens.find(({ content }) => content === token && stated.has(content))?.id,
    encode(text, most, side) {
      const pieces = splitPlain(text).flatMap((piece): TextPiece[] =>
        'id' in piece ? [piece] : splitNormalized(normalize(piece.text)),
      );
      // Word by word, so that unknown characters of two words do not become one token.
      const own = pieces.flatMap((piece, i) =>
        'id' in piece
          ? [piece.id]
          : preTokenize({ text: piece.text, isStart: i === 0 }).flatMap((word) => model.encode(word.text)),
      );
      const room = Math.max(0, most - added);
      const kept = side === 'right' ? own.slice(0, room) : own.slice(own.length - Math.min(room, own.length));
      return [...before, ...kept, ...after];
    },
  };
}
