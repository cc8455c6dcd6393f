/** Images → classes, by a model with one output of scores and labels in its metadata. */
import { ONE_ROW_FIELDS, type OneRowOptions } from '../../../datasets/embed/embed-options.js';
import { DEVICE, type Device } from '../../../run/runtime/lanes/device.js';
import { readClassLabels } from '../../../extract/class-labels.js';
import { integer, readOptions, type Fields } from '../../../base/options.js';
import { invalidOption, type Options } from '../../../base/checks.js';
import { floatsOf } from '../../../onnx/tensor/widen.js';
import { listLargest } from '../../../onnx/tensor/vectors/largest.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import { embedImages } from '../../../datasets/embed/embed-images.js';
import { openModel } from '../../../run/model/open/open-model.js';
import { PHOTO_FIELDS, type PhotoOptions } from '../../../photos/feeds/photo-options.js';
import type { Tile } from '../../../photos/images/pixels/tile-grid.js';
import type { EmbedSource } from '../../../datasets/sources/open-source.js';
import type { ImageError } from '../../../photos/images/file/image-errors.js';

/** Options of {@link classifyImages}. */
export interface ClassifyOptions extends OneRowOptions, PhotoOptions {
  /**
   * Classes per image, an integer from 1 to 1000.
   * @default 5
   */
  readonly top: number;
  /**
   * Device that runs the model. Only `'auto'` falls back to the CPU.
   * @default 'cpu'
   */
  readonly device: Device;
}

export const CLASSIFY_FIELDS: Fields<ClassifyOptions> = {
  ...PHOTO_FIELDS,
  ...ONE_ROW_FIELDS,
  top: integer(1, 1000, 5, 'classes per image'),
  device: DEVICE,
};

/** A class of an image. */
export interface ImageClass {
  readonly label: string;
  /** The model's output: a probability, if it ends in Softmax. */
  readonly score: number;
}

/** The classes of an image, of a tile or a clip; or the error of an image. */
export interface ClassifiedImage {
  /** Position in the source, from 0. */
  readonly index: number;
  /** As the source has it; null for images given as bytes. */
  readonly path: string | null;
  /** With `tiles`: what the tile covers; its classes come by themselves. */
  readonly tile?: Tile;
  /** With `clips`: the first frame of the clip, among those of its folder or file. */
  readonly clipStart?: number;
  /** The highest scores first; empty if the image could not be read. */
  readonly classes: readonly ImageClass[];
  readonly error: ImageError | null;
}

/**
 * Classifies images with a model such as {@link attachProbe} gives: its first output has a score for each class, and its metadata
 * names the classes.
 *
 * @param path - The ONNX file.
 * @param source - A folder, pattern, list or archive, or images.
 * @param given - See {@link ClassifyOptions}.
 * @returns An iterator over the images, in input order.
 * @throws {@link TapirError} `OPTION_INVALID`, also for a model without labels; those of {@link embedImages}.
 *
 * @example
 * ```ts
 * import { classifyImages } from 'onnx-tapir/features';
 *
 * for await (const { path, classes } of classifyImages('classifier.onnx', 'photos')) {
 *   console.log(path, classes[0]?.label, classes[0]?.score); // 'a.jpg' 'cat' 0.98
 * }
 * ```
 */
export async function* classifyImages(
  path: string,
  source: EmbedSource,
  given: Options<ClassifyOptions> = {},
): AsyncGenerator<ClassifiedImage> {
  const { top, device, ...options } = readOptions(CLASSIFY_FIELDS, given, 'classifyImages');
  const model = await openModel(path);
  const [output] = model.outputs;
  const known = await readClassLabels(model);
  if ('problem' in known) throw invalidOption('model', `a classifier with labels (${known.problem})`, path);
  const { labels } = known;
  const nodes = { [`tensor:${output!.name}`]: 'scores' } as const;
  const extractor = await createFeatureExtractor(model, nodes, { device, outputDtype: 'keep' });
  try {
    for await (const row of embedImages(extractor, source, options)) {
      const { index, path: image, tile, clipStart, features, error } = row;
      const part = { ...(tile && { tile }), ...(clipStart === undefined ? {} : { clipStart }) };
      if (error) yield { index, path: image, ...part, classes: [], error };
      else {
        const scores = floatsOf(features['scores']!)!;
        yield { index, path: image, ...part, classes: rankClasses(scores, labels, top), error: null };
      }
    }
  } finally {
    await extractor.close();
  }
}

/** The highest scores with their labels. Throws `OPTION_INVALID` if there is not one for each label. */
export function rankClasses(scores: Float32Array, labels: readonly string[], top: number): ImageClass[] {
  if (scores.length === labels.length)
    return listLargest(scores, top).map((k) => ({ label: labels[k]!, score: scores[k]! }));
  const expected = `one with ${labels.length} scores, as many as labels`;
  throw invalidOption('model', expected, `${scores.length} scores`);
}
