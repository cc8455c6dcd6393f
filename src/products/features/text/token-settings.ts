/** What the configuration files of a text tower say about its tokens: cleaning, length, padding. */
import { isPlainObject } from '../../../base/checks.js';
import { listOf, type PartConfig } from './tokenizer/normalizers.js';
import type { JsonFields, TokenizerFiles } from './text-tower.js';
import { tokenizerInvalid, type TokenizerJson } from './tokenizer/tokenizer.js';

/** How texts become batches of ids. */
export interface TokenSettings {
  /** tokenizer.json with what tokenizer_config.json changes in it. */
  readonly tokenizer: TokenizerJson;
  readonly clean: Cleaner;
  /** Longest list of ids, with the tokens around the text; Infinity if nothing limits it. */
  readonly maxTokens: number;
  /**
   * Length of all lists; `longest`: as long as the longest one of a batch; `none`: only equally long lists run together, because
   * padding would change the vectors.
   */
  readonly padTo: number | 'longest' | 'none';
  /** The token that pads; undefined if no file names one. */
  readonly padToken: string | undefined;
  readonly padSide: 'left' | 'right';
  readonly cutSide: 'left' | 'right';
  /** Whether padding is masked. SigLIP has learnt with padding that is not. */
  readonly masksPadding: boolean;
}

/** What the graph says about its tokens. */
export interface TokenGraph {
  /** Length of the lists, if the graph has a fixed one. */
  readonly length: number | undefined;
  readonly hasMask: boolean;
}

/** transformers writes 1e30 for a model without a limit. */
const UNLIMITED = 1e9;
const SIGLIP_LENGTH = 64;
const OPEN_CLIP_LENGTH = 77;

/** Reads the settings. Throws `TOKENIZER_INVALID` for what would change ids and cannot be followed. */
export function readTokenSettings(files: TokenizerFiles, graph: TokenGraph): TokenSettings {
  refuseUnknown(files);
  const openClip = fieldsOf(files.config['text_cfg']);
  const settings = openClip ? readOpenClip(files, openClip) : readHuggingFace(files, graph);
  return {
    ...settings,
    padSide: sideOf(files, 'padding_side') ?? defaultPadSide(files),
    cutSide: sideOf(files, 'truncation_side') ?? 'right',
    padToken:
      tokenText(files.settings['pad_token']) ?? tokenText(fieldsOf(files.tokenizer.padding)?.['pad_token']),
    maxTokens: Math.min(settings.maxTokens, graph.length ?? Infinity),
    padTo: graph.length ?? settings.padTo,
  };
}

type OwnSettings = Pick<TokenSettings, 'tokenizer' | 'clean' | 'maxTokens' | 'padTo' | 'masksPadding'>;

/** Immich's reading of OpenCLIP's configuration: always of the context's length. */
function readOpenClip({ tokenizer }: TokenizerFiles, text: JsonFields): OwnSettings {
  const length = numberOf(text['context_length']) ?? OPEN_CLIP_LENGTH;
  const cleaning = fieldsOf(text['tokenizer_kwargs'])?.['clean'];
  return {
    tokenizer,
    clean: cleaning === 'canonicalize' ? cleanForOpenClip : collapseSpaces,
    maxTokens: length,
    padTo: length,
    masksPadding: true,
  };
}

/** transformers' reading of a model and its tokenizer. */
function readHuggingFace(files: TokenizerFiles, { hasMask }: TokenGraph): OwnSettings {
  const { config, settings, tokenizer } = files;
  const text = fieldsOf(config['text_config']) ?? config;
  const types = [config['model_type'], text['model_type']].map(String);
  const isSiglip = types.some((type) => type.startsWith('siglip')) || classOf(settings).startsWith('Siglip');
  const isClip = types.some((type) => type === 'clip' || type === 'clip_text_model');
  const positions = numberOf(text['max_position_embeddings']);
  // RoBERTa's positions begin after that of its padding token.
  const offset = /roberta/.test(String(text['model_type'])) ? 2 : 0;
  const stated = numberOf(settings['model_max_length']);
  const limits = [
    stated !== undefined && stated < UNLIMITED ? stated : undefined,
    positions === undefined ? undefined : positions - offset,
    isSiglip && positions === undefined ? SIGLIP_LENGTH : undefined,
  ].filter((limit) => limit !== undefined);
  const maxTokens =
    limits.length > 0
      ? Math.min(...limits)
      : (numberOf(fieldsOf(tokenizer.truncation)?.['max_length']) ?? Infinity);
  const fixed = numberOf(fieldsOf(fieldsOf(tokenizer.padding)?.['strategy'])?.['Fixed']);
  // CLIP is causal and reads the end token: what pads the text after it changes nothing.
  const dynamic = hasMask || isClip ? 'longest' : 'none';
  const names = settings['model_input_names'];
  return {
    ...readCleaning({ ...files, tokenizer: withSpecialTokens(tokenizer, settings) }, isSiglip),
    maxTokens,
    padTo: isSiglip ? maxTokens : (fixed ?? dynamic),
    masksPadding: !isSiglip && !(Array.isArray(names) && !names.includes('attention_mask')),
  };
}

const NAMED_TOKENS = [
  'bos_token',
  'eos_token',
  'unk_token',
  'sep_token',
  'pad_token',
  'cls_token',
  'mask_token',
];

/** transformers finds all special tokens of tokenizer_config.json in a text, such as a pad_token "!", also those that tokenizer.json lacks. */
function withSpecialTokens(tokenizer: TokenizerJson, settings: JsonFields): TokenizerJson {
  const allOf = (field: string): unknown[] => Object.values(settings[field] ?? {});
  const named = [
    ...allOf('added_tokens_decoder'),
    ...NAMED_TOKENS.map((field) => settings[field]),
    ...allOf('additional_special_tokens'),
    ...allOf('extra_special_tokens'),
  ];
  const tokens = named.flatMap((token) => {
    const content = tokenText(token);
    const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
    return content === undefined ? [] : [{ ...flags, ...fieldsOf(token), id: -1, content }];
  });
  return { ...tokenizer, added_tokens: [...(tokenizer.added_tokens ?? []), ...tokens] };
}

/** Lower-casing and cleaning that the class of the tokenizer adds to tokenizer.json. */
function readCleaning(
  { settings, tokenizer }: TokenizerFiles,
  isSiglip: boolean,
): Pick<TokenSettings, 'tokenizer' | 'clean'> {
  const name = classOf(settings);
  const keep = { tokenizer, clean: (text: string) => text };
  const lowerCases = settings['do_lower_case'] !== false;
  if (name.startsWith('Bert')) return { ...keep, tokenizer: withBertSettings(tokenizer, settings) };
  if (hasLowercase(tokenizer.normalizer)) return keep;
  if (name === 'SiglipTokenizer') return { tokenizer, clean: (text) => canonicalize(text, lowerCases) };
  const isGemma = name === 'GemmaTokenizer' || name === 'Siglip2Tokenizer';
  if (!isGemma || !isSiglip || !lowerCases) return keep;
  // SigLIP2 has learnt lower-cased texts, which Siglip2Tokenizer adds to Gemma's tokenizer.
  const normalizers = [{ type: 'Lowercase' }, ...(tokenizer.normalizer ? [tokenizer.normalizer] : [])];
  return { ...keep, tokenizer: { ...tokenizer, normalizer: { type: 'Sequence', normalizers } } };
}

function hasLowercase(normalizer: PartConfig | null | undefined): boolean {
  if (normalizer?.type === 'Lowercase') return true;
  return listOf(normalizer?.['normalizers']).some(hasLowercase);
}

/** transformers lays the settings of a BERT tokenizer over the normalizer in tokenizer.json. */
function withBertSettings(tokenizer: TokenizerJson, settings: JsonFields): TokenizerJson {
  if (tokenizer.normalizer?.type !== 'BertNormalizer') return tokenizer;
  const stated = {
    lowercase: settings['do_lower_case'],
    strip_accents: settings['strip_accents'],
    handle_chinese_chars: settings['tokenize_chinese_chars'],
  };
  const given = Object.entries(stated).filter(([, value]) => value !== undefined);
  return { ...tokenizer, normalizer: { ...tokenizer.normalizer, ...Object.fromEntries(given) } };
}

/** Refuses settings that change ids and are not followed here. */
function refuseUnknown({ path, settings, tokenizer }: TokenizerFiles): void {
  const name = classOf(settings);
  if (name.startsWith('Nllb'))
    throw tokenizerInvalid(path, `tokenizers of class ${name} need a language, which cannot be given here`);
  if (settings['split_special_tokens'] === true)
    throw tokenizerInvalid(path, 'tokenizer_config.json says split_special_tokens, which is not supported');
  const prefix = settings['add_prefix_space'];
  if (typeof prefix === 'boolean' && hasPrefix(tokenizer.pre_tokenizer) === !prefix)
    throw tokenizerInvalid(
      path,
      `tokenizer_config.json says add_prefix_space ${String(prefix)}, tokenizer.json does otherwise`,
    );
  if (Number(tokenizer.model['dropout'] ?? 0) > 0)
    throw tokenizerInvalid(path, 'its model drops merges at random (dropout): a text has no certain ids');
  if (!/^(?:Gemma|Llama)/.test(name)) return;
  // The classes lay these two over the post-processor.
  for (const [field, token] of [
    ['add_bos_token', 'bos_token'],
    ['add_eos_token', 'eos_token'],
  ] as const) {
    const content = tokenText(settings[token]);
    const asked = settings[field];
    if (typeof asked !== 'boolean' || content === undefined) continue;
    if (JSON.stringify(tokenizer.post_processor ?? {}).includes(JSON.stringify(content)) === asked) continue;
    const says = `tokenizer_config.json says ${field} ${String(asked)}`;
    throw tokenizerInvalid(path, `${says}, and its post-processor does otherwise ("${content}")`);
  }
}

/** Whether a pre-tokenizer puts a space before a text; undefined if it has no part that might. */
function hasPrefix(config: PartConfig | null | undefined): boolean | undefined {
  if (config?.type === 'ByteLevel') return config['add_prefix_space'] === true;
  if (config?.type === 'Metaspace') return config['prepend_scheme'] !== 'never';
  return listOf(config?.['pretokenizers'])
    .map(hasPrefix)
    .find((has) => has !== undefined);
}

function classOf(settings: JsonFields): string {
  const name = settings['tokenizer_class'];
  return typeof name === 'string' ? name.replace(/Fast$/, '') : '';
}

/** Classes of transformers that pad in front where no file states a side (5.24, with the names of their aliases). */
const PADS_LEFT: ReadonlySet<string> = new Set([
  'CodeLlamaTokenizer',
  'CohereTokenizer',
  'CpmAntTokenizer',
  'GemmaTokenizer',
  'LlamaTokenizer',
  'MistralCommonBackend',
  'MistralCommonTokenizer',
  'Siglip2Tokenizer',
  'XLNetTokenizer',
]);

/** The side where tokenizer_config.json states none: that of tokenizer.json, else that of the class. */
function defaultPadSide({ settings, tokenizer }: TokenizerFiles): 'left' | 'right' {
  const direction = fieldsOf(tokenizer.padding)?.['direction'];
  if (direction === 'Left' || direction === 'Right') return direction === 'Left' ? 'left' : 'right';
  return PADS_LEFT.has(classOf(settings)) ? 'left' : 'right';
}

function sideOf({ path, settings }: TokenizerFiles, field: string): 'left' | 'right' | undefined {
  const side = settings[field];
  if (side === undefined || side === 'left' || side === 'right') return side;
  throw tokenizerInvalid(path, `tokenizer_config.json says ${field} ${JSON.stringify(side)}`);
}

/** A token as the files write it: its text, or an object with it. */
function tokenText(token: unknown): string | undefined {
  if (typeof token === 'string') return token;
  const content = fieldsOf(token)?.['content'];
  return typeof content === 'string' ? content : undefined;
}

function fieldsOf(value: unknown): JsonFields | undefined {
  return isPlainObject(value) ? value : undefined;
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && value > 0 ? value : undefined;
}

/** Changes a text before it is tokenized. */
type Cleaner = (text: string) => string;

/** Python's string.punctuation. */
const PUNCTUATION = /[!-/:-@[-`{-~]/g;
/** What str.split() and \s of Python's re take for white space: Unicode's, and four separators of ASCII. */
// oxlint-disable-next-line no-control-regex -- the separators
const SPACES = /[\p{White_Space}\u{1c}-\u{1f}]+/gu;

/** `" ".join(text.split())`. */
function collapseSpaces(text: string): string {
  return text.replaceAll(SPACES, ' ').replaceAll(/^ | $/g, '');
}

/** As Immich cleans texts for OpenCLIP models whose configuration says `clean: canonicalize`: spaces first. */
function cleanForOpenClip(text: string): string {
  return collapseSpaces(text).replaceAll(PUNCTUATION, '').toLowerCase();
}

/** As SiglipTokenizer of transformers cleans texts: spaces last. */
function canonicalize(text: string, lowerCases: boolean): string {
  const lower = lowerCases ? text.toLowerCase() : text;
  return collapseSpaces(lower.replaceAll(PUNCTUATION, ''));
}
