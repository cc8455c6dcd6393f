/** Text towers and their tokenizers, found and run, against torch (test/fixtures/text/make_towers.py). */
import { copyFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TapirError } from 'onnx-tapir';
import { createTextEncoder, encodeLabels } from 'onnx-tapir/features';
import { describe, expect, it } from 'vitest';
import { scratchFolder } from '../../../support/fixtures.js';
import { failureOf } from '../../../support/failure.js';
import { readTextJson, writeHuggingFacePair, writeImmichPair } from '../../../support/text-models.js';

interface Expected {
  readonly texts: readonly string[];
  readonly embeddings: readonly (readonly number[])[];
}

const scratch = scratchFolder();
const clip = join(scratch, 'clip');
writeHuggingFacePair(clip, 'clip');

const unitOf = (vector: Float32Array) => vector.map((value) => value / Math.hypot(...vector));

/** The largest difference from torch's embeddings. */
async function differenceFrom(
  kind: string,
  path: string,
  scale: (vector: Float32Array) => Float32Array = (vector) => vector,
): Promise<number> {
  const { texts, embeddings } = readTextJson<Expected>(`${kind}/expected.json`);
  await using tower = await createTextEncoder(path);
  const vectors = await tower.encode(texts);
  expect(tower.elements ?? vectors[0]!.length).toBe(embeddings[0]!.length);
  const differences = vectors.flatMap((vector, i) =>
    Array.from(scale(vector), (value, j) => Math.abs(value - scale(Float32Array.from(embeddings[i]!))[j]!)),
  );
  expect(differences).toHaveLength(texts.length * embeddings[0]!.length);
  return Math.max(...differences);
}

const rejection = (promise: Promise<unknown>) => failureOf(promise, TapirError);

describe('embeddings are those of torch', () => {
  it.each(['clip', 'siglip', 'siglip2', 'bert'] as const)(
    '%s, in the layout of Hugging Face',
    async (kind) => {
      const path = writeHuggingFacePair(join(scratch, `pair-${kind}`), kind);
      expect(await differenceFrom(kind, path)).toBeLessThan(1e-5);
    },
  );

  it('Immich: found from the image model, int32 ids of a fixed batch and length, cleaned texts', async () => {
    expect(await differenceFrom('immich', writeImmichPair(join(scratch, 'immich')))).toBeLessThan(1e-5);
  });

  it('found beside the image model, and in a model that holds both towers', async () => {
    expect(await differenceFrom('clip', join(clip, 'onnx/vision_model.onnx'))).toBeLessThan(1e-5);
    // The whole model scales its vectors to length 1.
    expect(await differenceFrom('clip', join(clip, 'onnx/model.onnx'), unitOf)).toBeLessThan(1e-5);
  });
});

describe('encode', () => {
  it('gives texts the same vectors alone and among others', async () => {
    const { texts } = readTextJson<Expected>('bert/expected.json');
    await using tower = await createTextEncoder(writeHuggingFacePair(join(scratch, 'alone'), 'bert'));
    const together = await tower.encode(texts);
    for (const [i, text] of texts.entries()) {
      const [alone] = await tower.encode([text]);
      for (const [j, value] of alone!.entries()) expect(value).toBeCloseTo(together[i]![j]!, 5);
    }
    expect(await tower.encode([])).toEqual([]);
  });

  it('refuses what is no list of strings', async () => {
    await using tower = await createTextEncoder(join(clip, 'onnx/text_model.onnx'));
    expect(await rejection(tower.encode('a dog' as never))).toMatchObject({ code: 'OPTION_INVALID' });
    expect(await rejection(tower.encode([1] as never))).toMatchObject({ code: 'OPTION_INVALID' });
    expect(tower).toMatchObject({ output: 'text_embeds', maxTokens: 77 });
  });
});

it('special tokens of tokenizer_config.json are found in texts, as transformers does', async () => {
  const folder = join(scratch, 'special');
  const path = writeHuggingFacePair(folder, 'clip');
  const settings = { tokenizer_class: 'CLIPTokenizer', pad_token: '!', extra_special_tokens: ['[tok]'] };
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify(settings));
  await using tower = await createTextEncoder(path);
  // AutoTokenizer.from_pretrained(folder)('hello! a!b [tok]').input_ids, transformers 5.23.
  expect(tower.tokenize('hello! a!b [tok]')).toEqual([1055, 71, 748, 804, 0, 295, 0, 946, 1057, 1056]);
});

describe('encodeLabels', () => {
  it('takes the mean direction of the templates', async () => {
    await using tower = await createTextEncoder(join(clip, 'onnx/text_model.onnx'));
    const templates = ['a photo of a {}.', 'a {}, drawn'];
    const [dog] = await encodeLabels(tower, ['dog', '$& cat'], { templates });
    const vectors = await tower.encode(['a photo of a dog.', 'a dog, drawn']);
    const units = vectors.map(unitOf);
    const sum = units[0]!.map((value, i) => value + units[1]![i]!);
    for (const [i, value] of dog!.entries()) expect(value).toBeCloseTo(sum[i]! / Math.hypot(...sum), 5);
    const refused = await rejection(encodeLabels(tower, ['dog'], { templates: ['no place'] }));
    expect(refused).toMatchObject({ code: 'OPTION_INVALID', details: { option: 'templates' } });
  });
});

describe('what cannot be encoded', () => {
  it('an image model without a text tower: the message says where it was looked for', async () => {
    const folder = join(scratch, 'imageless');
    const text = writeHuggingFacePair(folder, 'clip');
    rmSync(text);
    const error = await rejection(createTextEncoder(join(folder, 'onnx/vision_model.onnx')));
    expect(error).toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('text_model.onnx'),
    });
    copyFileSync(join(folder, 'onnx/vision_model.onnx'), join(folder, 'other.onnx'));
    const unnamed = await rejection(createTextEncoder(join(folder, 'other.onnx')));
    expect(unnamed).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining('its name') });
  });

  it('an output that needs pixels', async () => {
    const error = await rejection(
      createTextEncoder(join(clip, 'onnx/model.onnx'), { output: 'logits_per_image' }),
    );
    expect(error).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining('pixel_values') });
  });

  it.each([
    ['a language', { tokenizer_class: 'NllbTokenizer', pad_token: '<|endoftext|>' }, 'language'],
    ['special tokens that are split', { split_special_tokens: true }, 'split_special_tokens'],
    ['no such padding', { pad_token: '<none>' }, '<none>'],
    ['no padding', {}, 'pad_token'],
    ['a space before the text', { add_prefix_space: true, pad_token: '!' }, 'add_prefix_space'],
    ['a side', { padding_side: 'middle', pad_token: '!' }, 'padding_side'],
  ])('a tokenizer whose configuration asks for %s', async (_what, settings, said) => {
    const folder = join(scratch, `settings-${said.replaceAll(/\W/g, '')}`);
    const path = writeHuggingFacePair(folder, 'clip');
    writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify(settings));
    const error = await rejection(createTextEncoder(path));
    expect(error).toMatchObject({ code: 'TOKENIZER_INVALID', message: expect.stringContaining(said) });
  });
});
