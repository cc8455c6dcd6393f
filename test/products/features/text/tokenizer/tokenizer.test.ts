/** Token ids against those of Python's tokenizers, for 500 texts of many scripts (test/fixtures/text/make.py). */
import { describe, expect, it } from 'vitest';
import {
  createTokenizer,
  type TokenizerJson,
} from '../../../../../src/products/features/text/tokenizer/tokenizer.js';
import { readTextJson } from '../../../../support/text-models.js';

/** What Python did. */
interface PythonIds {
  readonly rule: { readonly max: number; readonly lower?: boolean };
  readonly ids: readonly (readonly number[])[];
}

const texts = readTextJson<readonly string[]>('texts.json.gz');
const clip = readTextJson<TokenizerJson>('clip/tokenizer.json.gz');

describe('the ids of 500 texts are those of Python', () => {
  it.each(['clip', 'siglip', 'siglip2', 'bert', 'xlmr'])('%s', (kind) => {
    const { rule, ids } = readTextJson<PythonIds>(`${kind}/ids.json.gz`);
    const json = readTextJson<TokenizerJson>(`${kind}/tokenizer.json.gz`);
    const normalizers = [{ type: 'Lowercase' }, json.normalizer];
    const normalizer = rule.lower === true ? { type: 'Sequence', normalizers } : json.normalizer!;
    const tokenizer = createTokenizer({ ...json, normalizer }, 'tokenizer.json');
    expect(texts).toHaveLength(500);
    for (const [i, text] of texts.entries())
      expect(tokenizer.encode(text, rule.max, 'right'), JSON.stringify(text)).toEqual(ids[i]);
  });
});

const addedToken = (content: string, normalized: boolean) => {
  return { id: 9999, content, single_word: false, lstrip: false, rstrip: false, normalized };
};

/** test/fixtures/text/make_parts.py. */
interface Parts {
  readonly texts: readonly string[];
  readonly model: TokenizerJson['model'];
  readonly cases: readonly {
    readonly name: string;
    readonly tokenizer: Partial<TokenizerJson>;
    readonly ids: readonly (readonly number[])[];
  }[];
}

describe('each part gives the ids of Python', () => {
  const parts = readTextJson<Parts>('parts.json.gz');
  it.each(parts.cases)('$name', ({ tokenizer: json, ids }) => {
    const tokenizer = createTokenizer({ model: parts.model, ...json }, 'tokenizer.json');
    const found = parts.texts.map((text) => [text, tokenizer.encode(text, Infinity, 'right')]);
    expect(found).toEqual(parts.texts.map((text, i) => [text, ids[i]]));
  });

  it('an added token gets the id of Python, whatever the file says', () => {
    const added = [addedToken('[new]', false), addedToken('[CLS]', false)];
    const tokenizer = createTokenizer({ model: parts.model, added_tokens: added }, 'tokenizer.json');
    const size = Object.keys(parts.model['vocab'] as object).length;
    expect(tokenizer.encode('[new][CLS]', 9, 'right')).toEqual([size, 1]);
  });
});

describe('truncation', () => {
  it('keeps the tokens around the text, and the end of it if the left side is cut', () => {
    const tokenizer = createTokenizer(clip, 'tokenizer.json');
    const whole = tokenizer.encode('one two three four five six', 77, 'right');
    const right = tokenizer.encode('one two three four five six', 6, 'right');
    const left = tokenizer.encode('one two three four five six', 6, 'left');
    expect(tokenizer.added).toBe(2);
    expect(right).toEqual([...whole.slice(0, 5), whole.at(-1)]);
    expect(left).toEqual([whole[0], ...whole.slice(-5)]);
    expect(tokenizer.encode('one', 2, 'left')).toEqual([whole[0], whole.at(-1)]);
  });
});

describe('what would give other ids in silence', () => {
  const part = (type: string, fields: object = {}) => ({ type, ...fields });
  it.each([
    ['a normalizer', { normalizer: part('Nonsense') }, 'normalizer "Nonsense"'],
    [
      'a behaviour of a split',
      { pre_tokenizer: part('Split', { pattern: { Regex: 'a+' }, behavior: 'Nonsense' }) },
      'behavior "Nonsense"',
    ],
    [
      'a possessive quantifier',
      { pre_tokenizer: part('Split', { pattern: { Regex: '[a+]*+a' }, behavior: 'Isolated' }) },
      'possessive',
    ],
    [
      'a pattern that matches nothing',
      { normalizer: part('Replace', { pattern: { Regex: 'x*' }, content: '' }) },
      'matches nothing',
    ],
    ['a pre-tokenizer', { pre_tokenizer: part('UnicodeScripts') }, 'UnicodeScripts'],
    [
      'a space that may be before the first word',
      {
        pre_tokenizer: part('Metaspace', { replacement: '▁', prepend_scheme: 'first' }),
        normalizer: part('Strip'),
      },
      'prepend_scheme',
    ],
    [
      'an old Metaspace',
      { pre_tokenizer: part('Metaspace', { replacement: '▁', add_prefix_space: false }) },
      'add_prefix_space',
    ],
    ['a post-processor', { post_processor: part('Nonsense') }, 'post-processor "Nonsense"'],
    [
      'a template without the text',
      { post_processor: part('TemplateProcessing', { single: [], special_tokens: {} }) },
      'place for the text',
    ],
    [
      'two post-processors',
      { post_processor: part('Sequence', { processors: [part('BertProcessing'), part('BertProcessing')] }) },
      'two steps',
    ],
    ['a replacement', { pre_tokenizer: part('Metaspace') }, 'replacement'],
    ['content', { normalizer: part('Replace', { pattern: { String: 'a' } }) }, 'no content'],
    ['ids', { post_processor: part('BertProcessing', { cls: ['[CLS]'], sep: ['[SEP]'] }) }, 'no ids'],
    ['a model', { model: part('Nonsense', { vocab: {} }) }, 'model "Nonsense"'],
    [
      'a BPE with prefixes',
      { model: { ...clip.model, continuing_subword_prefix: '##' } },
      'continuing_subword_prefix',
    ],
    ['a BPE with few bytes', { model: { ...clip.model, byte_fallback: true } }, 'byte_fallback'],
    [
      'equal added tokens',
      { added_tokens: ['[A]', '[a]'].map((content) => addedToken(content, true)) },
      'same normalised text',
    ],
  ])('%s is refused', (_what, changed, said) => {
    expect(() => createTokenizer({ ...clip, ...changed }, 'tokenizer.json')).toThrow(
      expect.objectContaining({ code: 'TOKENIZER_INVALID', message: expect.stringContaining(said) }),
    );
  });

  it.each([
    ['BPE', { type: 'BPE', vocab: { a: 0 }, merges: [] }],
    ['Unigram', { type: 'Unigram', vocab: [['a', -1]], unk_id: null }],
    ['WordLevel', { type: 'WordLevel', vocab: { a: 0 } }],
  ])('what a %s model does not know, without a token for it', (_what, model) => {
    const tokenizer = createTokenizer({ model }, 'tokenizer.json');
    expect(tokenizer.encode('a', 9, 'right')).toEqual([0]);
    expect(() => tokenizer.encode('ab', 9, 'right')).toThrow(
      expect.objectContaining({ code: 'TOKENIZER_INVALID', message: expect.stringContaining('not know') }),
    );
  });
});
