/** The attribution of one image or batch. */
import { givenFields, show, type Options } from '../../../base/checks.js';
import { mismatch } from '../../../onnx/tensor/tensor.js';
import { readModelCall } from '../../../extract/inherit-options.js';
import { Extractor, extractorInternals } from '../../../extract/extractor.js';
import { loadImage } from '../../../photos/feeds/load-image.js';
import { chooseModelTransform } from '../../../photos/feeds/model-transform.js';
import { pictureTransform } from '../../../photos/feeds/picture-feeds.js';
import { planFeeds } from '../../../photos/feeds/plan-feeds.js';
import { isPhoto, type ImageSource } from '../../../photos/images/formats/image-source.js';
import type { Transform } from '../../../photos/images/transform/transform.js';
import { imageOfApplied, type LoadedImage } from '../../../photos/images/transform/load-pixels.js';
import type { ModelSource, OnnxModel } from '../../../run/model/open/open-model.js';
import type { RunInput } from '../../../extract/replicas/run-options.js';
import {
  createAttribution,
  type Attribution,
  type AttributionResult,
  type AttributionRunOptions,
} from '../attribution.js';
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
 * @param image - An image from {@link loadImage}; any other photo ({@link ImageSource}), which the transform that the model is found with, as in
 * `embed`, makes ready; or a batch as for {@link Attribution.run}.
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
  image: LoadedImage | ImageSource,
  given?: Options<AttributionOptions & AttributionRunOptions>,
): Promise<ImageAttribution>;
export function attribute(
  model: OnnxModel | ModelSource | Extractor,
  batch: RunInput,
  given?: Options<AttributionOptions & AttributionRunOptions>,
): Promise<AttributionResult>;
export async function attribute(
  model: OnnxModel | ModelSource | Extractor,
  image: LoadedImage | ImageSource | RunInput,
  given: Options<AttributionOptions & AttributionRunOptions> = {},
): Promise<AttributionResult> {
  const { target, signal, ...options } = givenFields(given, 'attribute');
  if (typeof image !== 'string' && (typeof image !== 'object' || image === null))
    throw mismatch('image', 'a photo, or a batch of tensors', show(image));
  await using attribution = await createAttribution(model, options);
  const loaded = isImage(image) ? image : imageOfApplied(image);
  if (!loaded && !isPhoto(image)) return await attribution.run(image, { target, signal });
  const photo = loaded ?? (await loadImage(image as ImageSource, transformFor(model, attribution)));
  const result = await attribution.run(photo.toTensor(), { target, signal });
  const overlay: ImageAttribution['overlay'] = (drawing) => drawHeatmap(photo, result.heatmap, drawing);
  return { ...result, overlay } satisfies ImageAttribution as AttributionResult;
}

/** The transform of a photo that is none of `loadImage`: that of the extractor, else what lies beside the model. */
function transformFor(model: OnnxModel | ModelSource | Extractor, { inputs }: Attribution): Transform {
  const { open } = readModelCall(model, {}, 'attribute');
  const own = model instanceof Extractor ? extractorInternals.of(model).model.transform : undefined;
  const transform = chooseModelTransform('auto', open(), own, inputs);
  return pictureTransform(planFeeds({ inputs }, transform, { takes: 'picture' }));
}

function isImage(image: LoadedImage | ImageSource | RunInput): image is LoadedImage {
  return typeof (image as Partial<LoadedImage> | null | undefined)?.toTensor === 'function';
}
