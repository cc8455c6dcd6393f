/** Labels for the images of a dataset from words alone, as CLIP gives them. */
import { DEVICE, type Device } from '../../../run/runtime/lanes/device.js';
import { readLogitSettings, type LogitSettings } from '../../../run/model/read-logit-settings.js';
import { readLiveRows, readPaths } from '../../../datasets/labels/live-rows.js';
import { checkText, invalidOption, type Options } from '../../../base/checks.js';
import { optional, positive, readOptions, type Fields } from '../../../base/options.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import { ENCODE_LABELS_FIELDS, encodeLabels, type EncodeLabelsOptions } from '../text/class-vectors.js';
import { createQuery, exactValue } from './metric.js';
import { openQueryTower } from './query-models.js';
import { checkDataset, chooseKey, KEY } from './search-dataset.js';

/** Options of {@link classifyZeroShot}. */
export interface ZeroShotOptions extends EncodeLabelsOptions {
  /**
   * Output key of the features. You may leave it out if the dataset has one output.
   * @default undefined
   */
  readonly key: string | undefined;
  /**
   * Path of the model file that made the dataset, if its text tower lies beside it.
   * @default undefined
   */
  readonly model: string | undefined;
  /**
   * Path of the text tower, if it does not lie beside `model`.
   * @default undefined
   */
  readonly textModel: string | undefined;
  /**
   * Factor of the cosines before the softmax that gives probabilities, a number above 0. Left out, probabilities are computed as the model
   * was trained, if the file of the text tower says how; files with both towers do. It is a softmax with `exp(logit_scale)`, or a sigmoid
   * of each label if there is also a `logit_bias` (SigLIP). Other files get a softmax with CLIP's 100. Labels do not depend on it.
   * @default undefined
   */
  readonly scale: number | undefined;
  /**
   * Device of the text tower.
   * @default 'cpu'
   */
  readonly device: Device;
}

export const ZERO_SHOT_FIELDS: Fields<ZeroShotOptions> = {
  key: KEY,
  model: optional(checkText),
  textModel: optional(checkText),
  ...ENCODE_LABELS_FIELDS,
  scale: optional(positive(1)),
  device: DEVICE,
};

/** The label of an image. */
export interface ZeroShotLabel {
  /** Path of the image as the dataset records it; null for an image given as bytes. */
  readonly path: string | null;
  /** Row in the features. */
  readonly row: number;
  readonly label: string;
  /** Cosine of the image with the label. */
  readonly score: number;
  /** Of the softmax over all labels, or of the label alone; see {@link ZeroShotOptions.scale}. */
  readonly probability: number;
}

/**
 * Gives each image of a dataset the label that its vector is nearest to, by the cosine. Nothing is trained.
 *
 * @param dataset - From {@link openDataset}, made by the image tower of a model such as CLIP.
 * @param labels - Names of two or more classes.
 * @param given - See {@link ZeroShotOptions}.
 * @returns A label per image, in the order of rows. Rows with a NaN or an infinity get none.
 * @throws {@link TapirError} `OPTION_INVALID`; `CHECKSUM_MISMATCH` if `model` did not make the dataset; those of
 * {@link createTextEncoder}.
 *
 * @example
 * ```ts
 * import { openDataset } from 'onnx-tapir';
 * import { classifyZeroShot } from 'onnx-tapir/features';
 *
 * const labels = await classifyZeroShot(await openDataset('vectors'), ['dog', 'cat'], { model: 'clip/onnx/vision_model.onnx' });
 * console.log(labels[0]); // { path: 'a.jpg', row: 0, label: 'dog', score: 0.27, probability: 0.98 }
 * ```
 */
export async function classifyZeroShot(
  dataset: Dataset,
  labels: readonly string[],
  given: Options<ZeroShotOptions> = {},
): Promise<ZeroShotLabel[]> {
  checkDataset(dataset);
  const options = readOptions(ZERO_SHOT_FIELDS, given, 'classifyZeroShot');
  const { scale, signal } = options;
  const key = chooseKey(dataset, options.key);
  const { vectors, trained } = await encodeClasses(dataset, labels, key, options);
  const classes = vectors.map(createQuery);
  const logits = scale === undefined ? trained : { scale, bias: undefined };
  const live = await readLiveRows(dataset);
  const found: Omit<ZeroShotLabel, 'path'>[] = [];
  for await (const { firstRow, rows, data } of dataset.blocks(key)) {
    signal?.throwIfAborted();
    const elements = data.length / rows;
    for (let i = 0; i < rows; i++) {
      if (!live.has(firstRow + i)) continue;
      const scores = classes.map((one) => exactValue('cosine', one, data, i * elements));
      if (scores.every(Number.isFinite))
        found.push({ row: firstRow + i, ...chooseLabel(labels, scores, logits) });
    }
  }
  const paths = await readPaths(dataset, new Set(found.map(({ row }) => row)));
  return found.map((one) => Object.assign({ path: paths.get(one.row) ?? null }, one));
}

/** The label with the largest score; the first of equal ones. */
function chooseLabel(
  labels: readonly string[],
  scores: readonly number[],
  logits: LogitSettings,
): Omit<ZeroShotLabel, 'path' | 'row'> {
  const score = Math.max(...scores);
  const at = scores.indexOf(score);
  return { label: labels[at]!, score, probability: probabilitiesOf(scores, logits)[at]! };
}

/** The probabilities of labels by their cosines: of a softmax over all, or of each alone. */
export function probabilitiesOf(cosines: readonly number[], { scale, bias }: LogitSettings): number[] {
  if (bias !== undefined) return cosines.map((one) => 1 / (1 + Math.exp(-(scale * one + bias))));
  return cosines.map((one) => 1 / cosines.reduce((sum, other) => sum + Math.exp(scale * (other - one)), 0));
}

/** CLIP's. */
export const USUAL_LOGITS: LogitSettings = { scale: 100, bias: undefined };

async function encodeClasses(
  dataset: Dataset,
  labels: readonly string[],
  key: string,
  { model, textModel, templates, device, signal }: ZeroShotOptions,
) {
  await using tower = await openQueryTower(dataset, { model, textModel, device }, 'given');
  const vectors = await encodeLabels(tower, labels, { templates, signal });
  const elements = elementCount(dataset.manifest.features[key]!.dims);
  if (vectors.length < 2) throw invalidOption('labels', 'two or more', labels);
  if (vectors.every(({ length }) => length === elements))
    return { vectors, trained: (await readLogitSettings(tower.model)) ?? USUAL_LOGITS };
  const expected = `a text tower whose vectors have ${elements} elements, as "${key}" of the dataset has`;
  throw invalidOption('textModel', expected, vectors[0]!.length);
}
