/** Classes of images by words alone, as CLIP gives them: one call for a photo and some words. */
import { invalidOption, type Options } from '../../../base/checks.js';
import { readOptions, type Fields } from '../../../base/options.js';
import { embedImages } from '../../../datasets/embed/embed-images.js';
import type { EmbedSource } from '../../../datasets/sources/open-source.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import { TRANSFORM_FIELDS, type TransformChoice } from '../../../photos/feeds/choose-transform.js';
import { unitVector } from '../../../onnx/tensor/vectors/unit-vector.js';
import { openModel, type OnnxModel } from '../../../run/model/open/open-model.js';
import { readLogitSettings } from '../../../run/model/read-logit-settings.js';
import { DEVICE, type Device } from '../../../run/runtime/lanes/device.js';
import { probabilitiesOf, USUAL_LOGITS } from '../search/zero-shot.js';
import { ENCODE_LABELS_FIELDS, encodeLabels, type EncodeLabelsOptions } from '../text/class-vectors.js';
import { createTextEncoder } from '../text/text-encoder.js';
import { rankClasses, type ClassifiedImage } from './classify-images.js';

/** Options of {@link classifyByWords}. */
export interface WordsOptions extends EncodeLabelsOptions, TransformChoice {
  /**
   * Sentences in which `{}` stands for the words.
   * @default ['a photo of {}.']
   */
  readonly templates: readonly string[];
  /**
   * Device of both towers.
   * @default 'cpu'
   */
  readonly device: Device;
}

export const WORDS_FIELDS: Fields<WordsOptions> = {
  ...ENCODE_LABELS_FIELDS,
  templates: { ...ENCODE_LABELS_FIELDS.templates, fallback: ['a photo of {}.'] },
  ...TRANSFORM_FIELDS,
  device: DEVICE,
};

/** What image towers call the vector that belongs to that of words. */
const IMAGE_VECTORS = ['image_embeds', 'image_embedding', 'embedding', 'pooler_output'];

/**
 * Classifies images by words, with a model such as CLIP whose text tower lies beside it. For a dataset, use {@link classifyZeroShot}.
 *
 * @param path - The image tower, as {@link createTextEncoder} takes it.
 * @param source - A folder, pattern, list or archive, or images.
 * @param words - Two or more, such as `['a cat', 'a dog']`.
 * @param given - See {@link WordsOptions}.
 * @returns An iterator over the images, in input order: all words, the likeliest first; the score is a probability.
 * @throws {@link TapirError} `OPTION_INVALID`; those of {@link createTextEncoder} and {@link embedImages}.
 *
 * @example
 * ```ts
 * import { classifyByWords } from 'onnx-tapir/features';
 *
 * for await (const { classes } of classifyByWords('clip/onnx/vision_model.onnx', ['cat.jpg'], ['a cat', 'a dog']))
 *   console.log(classes[0]); // { label: 'a cat', score: 0.99 }
 * ```
 */
export async function* classifyByWords(
  path: string,
  source: EmbedSource,
  words: readonly string[],
  given: Options<WordsOptions> = {},
): AsyncGenerator<ClassifiedImage> {
  const { templates, signal, device, ...options } = readOptions(WORDS_FIELDS, given, 'classifyByWords');
  if (!Array.isArray(words) || words.length < 2)
    throw invalidOption('words', 'two or more, such as "a cat,a dog"', words);
  const model = await openModel(path);
  await using tower = await createTextEncoder(path, { device });
  const vectors = await encodeLabels(tower, words, { templates, signal });
  const logits = (await readLogitSettings(tower.model)) ?? USUAL_LOGITS;
  const output = imageVector(model);
  await using extractor = await createFeatureExtractor(model, [[`tensor:${output}`, 'vector']], { device });
  for await (const { index, path: image, features, error } of embedImages(extractor, source, {
    ...options,
    signal,
  })) {
    if (error) {
      yield { index, path: image, classes: [], error };
      continue;
    }
    const unit = unitVector(features['vector']!.data as Float32Array);
    if (unit.length !== vectors[0]!.length)
      throw invalidOption(
        'model',
        `one whose images and words have vectors of one length (${output} has ${unit.length})`,
        vectors[0]!.length,
      );
    const cosines = vectors.map((one) => one.reduce((sum, value, at) => sum + value * unit[at]!, 0));
    const scores = Float32Array.from(probabilitiesOf(cosines, logits));
    yield { index, path: image, classes: rankClasses(scores, words, words.length), error: null };
  }
}

function imageVector({ outputs, label }: OnnxModel): string {
  const names = outputs.map(({ name }) => name);
  const found =
    IMAGE_VECTORS.find((name) => names.includes(name)) ?? (names.length === 1 ? names[0] : undefined);
  if (found !== undefined) return found;
  throw invalidOption(
    'model',
    `an image tower with the output ${IMAGE_VECTORS[0]} (${label} has ${names.join(', ')})`,
    undefined,
  );
}
