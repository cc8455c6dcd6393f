/** The models of a tokenizer.json, which split words into tokens: the npm package's, where they give the ids of Python. */
import type { PartConfig } from './normalizers.js';
import type { TokenizersPackage } from './open-tokenizers.js';

/** Splits words into the ids of tokens. */
interface Model {
  /** The vocabulary, without added tokens. */
  readonly ids: ReadonlyMap<string, number>;
  encode(word: string): number[];
}

const TYPES: ReadonlySet<unknown> = new Set([undefined, 'BPE', 'Unigram', 'WordPiece', 'WordLevel']);

/** Makes the model. Throws Error for one that gives other ids than Python's; the caller names the file. */
export function createModel(config: PartConfig, from: TokenizersPackage): Model {
  const { type, unk_token: unknown, end_of_word_suffix: end, merges, byte_fallback: hasBytes } = config;
  const suffix = typeof end === 'string' ? end : '';
  if (!TYPES.has(type)) throw new Error(`model "${String(type)}" is not supported`);
  const isBpe = Array.isArray(merges);
  // The package leaves unknown characters out then; the crate merges what stands on both sides of them.
  const leavesOut = isBpe && (unknown ?? null) === null && hasBytes !== true;
  if (isBpe && (config['continuing_subword_prefix'] ?? '') !== '')
    throw new Error('a BPE model with continuing_subword_prefix is not supported');
  if (type === 'WordPiece' && typeof config['continuing_subword_prefix'] !== 'string')
    throw new Error('its WordPiece model has no continuing_subword_prefix');
  const parts = {
    pre_tokenizer: null,
    normalizer: null,
    post_processor: null,
    decoder: null,
    added_tokens: [],
  };
  const { model } = new from.Tokenizer({ model: config, ...parts }, { unk_token: unknown });
  const ids = new Map(model.tokens_to_ids);
  const bytes = Array.from({ length: 256 }, (_, byte) =>
    ids.get(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`),
  );
  if (isBpe && hasBytes === true && bytes.includes(undefined))
    throw new Error('a BPE model with byte_fallback needs a token for each of 256 bytes');
  const idsOf = (token: string): readonly number[] => {
    const id = ids.get(token);
    if (id !== undefined) return [id];
    const spelled = hasBytes === true ? Array.from(Buffer.from(token), (byte) => bytes[byte]) : [undefined];
    if (!spelled.includes(undefined)) return spelled as number[];
    const unknownId = model.unk_token_id ?? undefined;
    if (unknownId !== undefined) return [unknownId];
    throw new Error(`it has no token for "${token}", and none for what it does not know`);
  };
  return {
    ids,
    encode(word) {
      const tokens = model([word]);
      if (leavesOut && tokens.join('') !== word + suffix)
        throw new Error(`it has no tokens for all of "${word}", and none for what it does not know`);
      return tokens.flatMap(idsOf);
    },
  };
}
