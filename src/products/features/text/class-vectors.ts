/** Zero-shot classification: a vector per label, from sentences about it. */
import { Internals } from '../../../run/model/open/internals.js';
import { checkedBy, readOptions, signal, type Fields } from '../../../base/options.js';
import { checkTexts, invalidOption, type Options } from '../../../base/checks.js';
import type { TextTower } from './text-encoder.js';

/** Options of {@link encodeLabels}. */
export interface EncodeLabelsOptions {
  /**
   * Sentences in which `{}` stands for the label.
   * @default ['a photo of a {}.']
   */
  readonly templates: readonly string[];
  /**
   * Rejects the call when it fires.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

export const ENCODE_LABELS_FIELDS: Fields<EncodeLabelsOptions> = {
  templates: checkedBy(checkTemplates, ['a photo of a {}.']),
  signal,
};

/**
 * Computes a vector for each label, for zero-shot classification as in CLIP: the mean of the normalised vectors of all templates,
 * normalised.
 *
 * @param tower - From {@link createTextEncoder}.
 * @param labels - Names of classes.
 * @param given - See {@link EncodeLabelsOptions}.
 * @returns A vector of length 1 per label, in order. The class of an image is the label whose vector has the largest cosine.
 * @throws {@link TapirError} `OPTION_INVALID`; those of {@link TextTower.encode}.
 *
 * @example
 * ```ts
 * import { createTextEncoder, encodeLabels } from 'onnx-tapir/features';
 *
 * const tower = await createTextEncoder('clip/onnx/vision_model.onnx');
 * const classes = await encodeLabels(tower, ['dog', 'cat'], { templates: ['a photo of a {}.', 'a drawing of a {}.'] });
 * console.log(classes.length); // 2
 * await tower.close();
 * ```
 */
export async function encodeLabels(
  tower: TextTower,
  labels: readonly string[],
  given: Options<EncodeLabelsOptions> = {},
): Promise<Float32Array[]> {
  if (typeof (tower as Partial<TextTower> | null | undefined)?.encode !== 'function')
    throw towers.refuse(tower);
  const { templates, signal } = readOptions(ENCODE_LABELS_FIELDS, given, 'encodeLabels');
  checkTextList('labels', labels);
  const sentences = labels.flatMap((label) =>
    templates.map((template) => template.replaceAll('{}', () => label)),
  );
  const vectors = await tower.encode(sentences, { signal });
  return labels.map((_, i) => meanDirection(vectors.slice(i * templates.length, (i + 1) * templates.length)));
}

/**
 * The direction between vectors: the mean of the vectors, each scaled to length 1, scaled to length 1. A vector of zeros stays zero.
 *
 * @param weights - Factor of each vector; 1 if left out. A negative one leads away from its vector.
 */
export function meanDirection(
  vectors: readonly Float32Array[],
  weights: readonly number[] = vectors.map(() => 1),
): Float32Array {
  const sum = new Float64Array(vectors[0]?.length ?? 0);
  for (const [i, vector] of vectors.entries()) {
    const norm = Math.hypot(...vector);
    if (norm > 0) vector.forEach((value, j) => (sum[j] = sum[j]! + (weights[i]! * value) / norm));
  }
  const norm = Math.hypot(...sum);
  return Float32Array.from(sum, (value) => (norm > 0 ? value / norm : 0));
}

const towers = new Internals<TextTower, never>('tower', 'a text tower, as createTextEncoder gives it');

function checkTextList(option: string, value: unknown): readonly string[] {
  const list = checkTexts(option, value);
  if (list.length > 0) return list;
  throw invalidOption(option, 'a list of strings, not empty', value);
}

function checkTemplates(option: string, value: unknown): readonly string[] {
  const templates = checkTextList(option, value);
  const missing = templates.find((template) => !template.includes('{}'));
  if (missing === undefined) return templates;
  throw invalidOption(option, 'sentences with {} for the label', missing);
}
