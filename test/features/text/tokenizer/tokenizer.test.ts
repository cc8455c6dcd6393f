/** Token ids against those of Python's tokenizers, for 500 texts of many scripts (test/fixtures/text/make.py). */
import { describe, expect, it } from 'vitest';
import { createTokenizer, type TokenizerJson } from '../../../../src/features/text/tokenizer/tokenizer.js';
import { readTextJson } from '../../../support/text-models.js';

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
      'a split that merges',
      { pre_tokenizer: part('Split', { pattern: { Regex: 'a+' }, behavior: 'MergedWithNext' }) },
      'MergedWithNext',
    ],
    [
      'punctuation that merges',
      { pre_tokenizer: part('Punctuation', { behavior: 'MergedWithNext' }) },
      'Punctuation',
    ],
    ['a pre-tokenizer', { pre_tokenizer: part('UnicodeScripts') }, 'UnicodeScripts'],
  ])('%s is refused', (_what, changed, said) => {
    expect(() => createTokenizer({ ...clip, ...changed }, 'tokenizer.json')).toThrow(
      expect.objectContaining({ code: 'TOKENIZER_INVALID', message: expect.stringContaining(said) }),
    );
  });
});
