/**
 * The pre-tokenizers of a tokenizer.json, rewritten where the npm package differs from the Rust crate `tokenizers`: as splits by a
 * regular expression, which the package computes like the crate. What cannot be rewritten is refused, since the package would
 * compute other tokens in silence.
 */
import { listOf, type PartConfig } from './normalizers.js';

/** Far above the patterns of tokenizers, which are made of classes: longer ones take the engine of regular expressions minutes. */
const MOST_PATTERN = 65_536;

const GPT2_WORDS = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
const PUNCTUATION = String.raw`[\p{P}!-/:-@\[-\x60{-~]`;

/**
 * Rewrites a pre-tokenizer.
 *
 * @param config - Section `pre_tokenizer` of a tokenizer.json.
 * @throws Error for a behaviour that the package does not have; the caller names the file.
 */
export function rewritePreTokenizer(config: PartConfig | null): PartConfig | null {
  switch (config?.type) {
    case undefined:
      return null;
    case 'Sequence': {
      const pretokenizers = listOf(config['pretokenizers']).map(rewritePreTokenizer);
      return { ...config, pretokenizers };
    }
    case 'Whitespace':
      return split(String.raw`\w+|[^\w\s]+`, 'Removed', true);
    case 'WhitespaceSplit':
      return split(String.raw`\s+`, 'Removed');
    case 'BertPreTokenizer':
      return sequence(split(String.raw`\s+`, 'Removed'), split(PUNCTUATION, 'Isolated'));
    case 'Digits':
      return split(config['individual_digits'] === true ? String.raw`\p{N}` : String.raw`\p{N}+`, 'Isolated');
    case 'Punctuation':
      return rewritePunctuation(config['behavior'] ?? 'Isolated');
    case 'ByteLevel':
      return config['use_regex'] === false || config['add_prefix_space'] === true
        ? config
        : sequence(split(GPT2_WORDS, 'Isolated'), { ...config, use_regex: false });
    case 'Split':
      return rewriteSplit(config);
    default:
      return config;
  }
}

function sequence(...pretokenizers: readonly PartConfig[]): PartConfig {
  return { type: 'Sequence', pretokenizers };
}

function split(regex: string, behavior: 'Isolated' | 'Removed', invert: boolean = false): PartConfig {
  return { type: 'Split', pattern: { Regex: regex }, behavior, invert };
}

function rewritePunctuation(behavior: unknown): PartConfig {
  if (behavior === 'Isolated' || behavior === 'Removed') return split(PUNCTUATION, behavior);
  if (behavior === 'Contiguous') return split(`${PUNCTUATION}+`, 'Isolated');
  throw new Error(`pre-tokenizer "Punctuation" with behavior "${String(behavior)}" is not supported`);
}

/** Merging a separator with a neighbour is a choice of other pieces to keep, if the separator is one character. */
function rewriteSplit(config: PartConfig): PartConfig {
  const { behavior, invert, pattern } = config;
  const { String: separator, Regex: regex } = (pattern ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof regex === 'string' && regex.length > MOST_PATTERN)
    throw new Error(`pre-tokenizer "Split" has a pattern of more than ${MOST_PATTERN} characters`);
  if (behavior === 'Isolated' || behavior === 'Removed') {
    // The package returns the matches of an inverted split alone, which is what "Removed" means.
    if (invert !== true || behavior === 'Removed') return config;
  } else if (typeof separator === 'string' && separator.length === 1 && invert !== true) {
    const code = String.raw`\x{${separator.codePointAt(0)!.toString(16)}}`;
    if (behavior === 'MergedWithPrevious') return split(`[^${code}]*${code}|[^${code}]+`, 'Removed', true);
    if (behavior === 'MergedWithNext') return split(`${code}[^${code}]*|[^${code}]+`, 'Removed', true);
  }
  const inverted = invert === true ? ' and "invert"' : '';
  throw new Error(
    `pre-tokenizer "Split" with behavior "${String(behavior)}"${inverted} is not supported for this pattern`,
  );
}
