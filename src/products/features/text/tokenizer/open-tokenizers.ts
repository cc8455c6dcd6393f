/** @huggingface/tokenizers, an optional package that splits text into tokens. The only import of it. */
import { packageRequire } from '../../../../base/package.js';
import { reasonOf, TapirError } from '../../../../base/errors.js';

const PACKAGE = '@huggingface/tokenizers';

/** The version whose ids are compared with those of Python's `tokenizers`. Another one is refused. */
export const TOKENIZERS_VERSION = '0.2.0';

/** A model of the package: splits the words of a pre-tokenizer into tokens. */
export type PackageModel = ((words: readonly string[]) => string[]) & {
  readonly tokens_to_ids: ReadonlyMap<string, number>;
  readonly unk_token_id: number | null | undefined;
};

/** The members of the package that are used here. */
export interface TokenizersPackage {
  readonly Tokenizer: new (tokenizer: object, config: object) => { readonly model: PackageModel };
  /** Its pattern is a translated regular expression of Oniguruma, with the flags g and u. */
  readonly ReplaceNormalizer: new (config: object) => { readonly pattern: RegExp };
  /** Writes the bytes of a text as visible characters. */
  readonly ByteLevelPreTokenizer: new (config: object) => (text: string) => string[];
}

let opened: TokenizersPackage | undefined;

/** Loads the package, once. Throws `DEPENDENCY_MISSING` with the command that installs it. */
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
