/** The attribution of one image or batch. */
import { givenFields, show, type Options } from '../../../base/checks.js';
import { mismatch } from '../../../onnx/tensor/tensor.js';
import type { Extractor } from '../../../extract/extractor.js';
import type { LoadedImage } from '../../../photos/images/transform/load-pixels.js';
import type { ModelSource, OnnxModel } from '../../../run/model/open/open-model.js';
import type { RunInput } from '../../../extract/replicas/run-options.js';
import { createAttribution, type AttributionResult, type AttributionRunOptions } from '../attribution.js';
import type { AttributionOptions } from '../options.js';
import { drawHeatmap, type DrawOptions } from './draw-heatmap.js';

/** What {@link attribute} finds in an image. */
export interface ImageAttribution extends AttributionResult {
  /**
   * Draws the heat map over the image, as a PNG; see {@link drawHeatmap}.
   *
   * @throws {@link TapirError} `OPTION_INVALID`; `DEPENDENCY_MISSING` without sharp.
   */
  readonly overlay: (given?: Options<DrawOptions>) => Promise<Uint8Array>;
}

/**
 * Attributes the scores of one image or batch: {@link createAttribution}, one run, and the sessions closed.
 *
 * @param model - As for {@link createAttribution}.
 * @param image - An image from {@link loadImage}, or a batch as for {@link Attribution.run}.
 * @param given - See {@link AttributionOptions} and {@link AttributionRunOptions}.
 * @returns The maps; those of an image can be drawn over it.
 * @throws {@link TapirError} those of {@link createAttribution} and {@link Attribution.run}.
 *
 * @example
 * ```ts
 * import { writeFileSync } from 'node:fs';
 * import { loadImage } from 'onnx-tapir';
 * import { attribute } from 'onnx-tapir/explain';
 *
 * const photo = await loadImage('dog.jpg');
 * const { map, classes, overlay } = await attribute('resnet50.onnx', photo, { method: 'grad-cam', layer: 'layer4' });
 * console.log(map.dims, classes); // [1, 7, 7] [207]
 * writeFileSync('heat.png', await overlay());
 * ```
 */
export function attribute(
  model: OnnxModel | ModelSource | Extractor,
  image: LoadedImage,
  given?: Options<AttributionOptions & AttributionRunOptions>,
): Promise<ImageAttribution>;
export function attribute(
  model: OnnxModel | ModelSource | Extractor,
  batch: RunInput,
  given?: Options<AttributionOptions & AttributionRunOptions>,
): Promise<AttributionResult>;
export async function attribute(
  model: OnnxModel | ModelSource | Extractor,
  image: LoadedImage | RunInput,
  given: Options<AttributionOptions & AttributionRunOptions> = {},
): Promise<AttributionResult> {
  const { target, signal, ...options } = givenFields(given, 'attribute');
  if (typeof image !== 'object' || image === null)
    throw mismatch('image', 'a photo of loadImage, or a batch of tensors', show(image));
  await using attribution = await createAttribution(model, options);
  if (!isImage(image)) return await attribution.run(image, { target, signal });
  const result = await attribution.run(image.toTensor(), { target, signal });
  const overlay: ImageAttribution['overlay'] = (drawing) => drawHeatmap(image, result.heatmap, drawing);
  return { ...result, overlay } satisfies ImageAttribution as AttributionResult;
}

function isImage(image: LoadedImage | RunInput): image is LoadedImage {
  return typeof (image as Partial<LoadedImage> | null | undefined)?.toTensor === 'function';
}
