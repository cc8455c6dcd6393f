/** @huggingface/tokenizers, an optional package that splits text into tokens. The only import of it. */
import { reasonOf, TapirError } from '../../../base/errors.js';
import { packageRequire } from '../../../base/package.js';

const PACKAGE = '@huggingface/tokenizers';

/** The version whose ids are compared with those of Python's `tokenizers`. Another one is refused. */
export const TOKENIZERS_VERSION = '0.2.0';

/** The parts of a tokenizer of the package, which are called in the order of Python's `tokenizers`; see {@link Tokenizer}. */
export interface PackageTokenizer {
  /** Splits normalised text. `section_index` is 0 for text at the start of the input. */
  readonly pre_tokenizer: ((text: string, options: { readonly section_index: number }) => string[]) | null;
  /** Splits the words of the pre-tokenizer into tokens. */
  readonly model: ((words: readonly string[]) => string[]) & {
    readonly tokens_to_ids: ReadonlyMap<string, number>;
    readonly unk_token_id: number | undefined;
  };
  /** Adds the tokens that stand before and after every text. */
  readonly post_processor:
    ((tokens: readonly string[], pair: null, addSpecialTokens: true) => { readonly tokens: string[] }) | null;
}

/** The members of the package that are used here. */
export interface TokenizersPackage {
  readonly Tokenizer: new (tokenizer: object, config: object) => PackageTokenizer;
  /** Replaces a pattern; it translates the regular expressions of Oniguruma. */
  readonly ReplaceNormalizer: new (config: object) => (text: string) => string;
}

let opened: TokenizersPackage | undefined;

/**
 * Loads the package, once.
 *
 * @throws {@link TapirError} `DEPENDENCY_MISSING` with the command that installs it.
 */
export function openTokenizers(): TokenizersPackage {
  opened ??= load();
  return opened;
}

function load(): TokenizersPackage {
  let found: TokenizersPackage;
  try {
    found = packageRequire(PACKAGE) as TokenizersPackage;
  } catch (error) {
    const isAbsent = (error as { readonly code?: unknown } | null)?.code === 'MODULE_NOT_FOUND';
    throw missing(isAbsent ? 'it is not installed' : reasonOf(error), error);
  }
  const version = installedVersion();
  if (version !== undefined && version !== TOKENIZERS_VERSION)
    throw missing(`version ${version} is installed`, undefined);
  return found;
}

/** The version in the package's own package.json, which its exports hide; undefined where a bundler has packed the code. */
function installedVersion(): string | undefined {
  try {
    const path = packageRequire.resolve(PACKAGE).replace(/dist[\\/][^\\/]+$/, 'package.json');
    const { name, version } = packageRequire(path) as { readonly name?: unknown; readonly version?: string };
    return name === PACKAGE ? version : undefined;
  } catch {
    return undefined;
  }
}

function missing(reason: string, cause: unknown): TapirError<'DEPENDENCY_MISSING'> {
  return new TapirError(
    'DEPENDENCY_MISSING',
    `text needs the package ${PACKAGE}: ${reason}; install it beside onnx-tapir (npm install ${PACKAGE}@${TOKENIZERS_VERSION})`,
    { details: { package: PACKAGE, reason }, cause },
  );
}
