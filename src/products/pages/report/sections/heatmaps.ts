/** Heat maps of some images: where the score of the predicted class comes from. */
import { checkLabels } from '../../../../extract/class-labels.js';
import { encodeWebp } from '../../../../photos/images/encode.js';
import { pictureTransform } from '../../../../photos/feeds/picture-feeds.js';
import { planFeeds } from '../../../../photos/feeds/plan-feeds.js';
import { isImageError } from '../../../../photos/images/file/image-errors.js';
import { openRecordedModel, readRecordedModel } from '../../../../datasets/embed/recorded-model.js';
import { integer, oneOf, optional, text, type Fields } from '../../../../base/options.js';
import type { Breathe } from '../../../../onnx/tensor/vectors/breathe.js';
import { createTransform } from '../../../../photos/feeds/create-transform.js';
import { loadImage } from '../../../../photos/feeds/load-image.js';
import type { Dataset } from '../../../../datasets/files/dataset.js';
import type { LoadedImage } from '../../../../photos/images/transform/load-pixels.js';
import type { Transform } from '../../../../photos/images/transform/transform.js';
import { ATTRIBUTION_METHODS, type AttributionMethod } from '../../../explain/methods.js';
import { createAttribution, type AttributionResult } from '../../../explain/attribution.js';
import { blendHeatmap } from '../../../maps/blend-heatmap.js';
import { HEATMAP_OPACITY } from '../../../maps/colour-map.js';
import type { SampledImage } from '../collect/collect-inputs.js';
import { spread } from '../collect/spread.js';
import { describeScores } from '../../describe-scores.js';
import { pathInside } from './thumbnails.js';

/** Heat maps of {@link writeReport}. */
export interface ReportHeatmaps {
  /** The ONNX file that the dataset was made with, with its classifier. */
  readonly model: string;
  /**
   * As for {@link createAttribution}: the layer of a CAM method.
   * @default undefined, which is the last one with places
   */
  readonly layer: string | undefined;
  /**
   * As for {@link createAttribution}.
   * @default 'grad-cam'
   */
  readonly method: AttributionMethod;
  /**
   * As for {@link createAttribution}: the scores.
   * @default undefined, which is the first output, or what its final Softmax or Sigmoid reads
   */
  readonly output: string | undefined;
  /**
   * As for {@link createAttribution}: labels of the classes, in their order.
   * @default undefined, which is those in the model's metadata
   */
  readonly labels: readonly string[] | undefined;
  /**
   * Maximum number of photos, an integer from 1 to 100: evenly spread over the rows. The model runs for each, on the CPU.
   * @default 12
   */
  readonly photos: number;
}

export const HEATMAP_FIELDS: Fields<ReportHeatmaps> = {
  model: text(''),
  layer: optional(text('')),
  method: oneOf(ATTRIBUTION_METHODS, 'grad-cam'),
  output: optional(text('')),
  labels: optional(checkLabels),
  photos: integer(1, 100, 12, 'number of photos, at most 100'),
};

/** Pixels of the longer side of a picture, and the quality of its WebP. */
const SIDE = 320;
const QUALITY = 75;

/** A photo and its heat map. Pictures are WebP in base64. */
export interface HeatmapPair {
  readonly path: string;
  /** The photo as the model sees it. */
  readonly photo: string;
  readonly overlay: string;
  /** The predicted class, with its label where the model has labels. */
  readonly classIndex: number;
  readonly label: string | null;
  readonly score: number;
}

/** The heat maps of a report. */
export interface Heatmaps {
  readonly method: AttributionMethod;
  readonly layer: string | null;
  /** Which scores are explained, in a sentence. */
  readonly scores: string;
  readonly pairs: readonly HeatmapPair[];
  /** Chosen photos that could not be read again. */
  readonly unreadable: number;
}

/** What the photos come from. */
export interface HeatmapPlace {
  readonly dataset: Dataset;
  readonly images: readonly SampledImage[];
  /** Folder that the images' paths are relative to. */
  readonly folder: string;
}

/** Makes the heat maps. Throws `CHECKSUM_MISMATCH`, `DATASET_INVALID`, and those of {@link createAttribution}. */
export async function makeHeatmaps(
  { dataset, images, folder }: HeatmapPlace,
  { model: path, layer, method, output, labels, photos }: ReportHeatmaps,
  breathe: Breathe,
  signal: AbortSignal | undefined,
): Promise<Heatmaps> {
  const recorded = readRecordedModel(dataset);
  const model = await openRecordedModel(recorded, path);
  await using attribution = await createAttribution(model, { layer, method, output, labels });
  const transform = pictureTransform(
    planFeeds(attribution, createTransform(recorded.transform), { takes: 'picture' }),
  );
  const run: Run = (image) => attribution.run(image.toTensor(), { signal });
  const pairs: HeatmapPair[] = [];
  let unreadable = 0;
  for (const image of spread(images, photos)) {
    // oxlint-disable-next-line no-await-in-loop -- one run at a time bounds the memory
    await breathe();
    // oxlint-disable-next-line no-await-in-loop -- the same
    const pair = await makePair(run, transform, folder, image.path);
    if (pair) pairs.push(pair);
    else unreadable++;
  }
  return { method, layer: attribution.layer, scores: describeScores(attribution), pairs, unreadable };
}

type Run = (image: LoadedImage) => Promise<AttributionResult>;

/** The pair of a photo; undefined if the photo cannot be read. */
async function makePair(
  run: Run,
  transform: Transform,
  folder: string,
  path: string | null,
): Promise<HeatmapPair | undefined> {
  const file = path === null ? undefined : pathInside(folder, path);
  if (file === undefined) return undefined;
  const image = await loadImage(file, transform).catch((error: unknown) => {
    if (isImageError(error)) return undefined;
    throw error;
  });
  if (!image) return undefined;
  const { heatmap, classes, labels, scores } = await run(image);
  const [photo, overlay] = await Promise.all(
    [0, HEATMAP_OPACITY].map(async (opacity) => {
      const bytes = await encodeWebp(blendHeatmap(image, heatmap, opacity), SIDE, QUALITY);
      return Buffer.from(bytes).toString('base64');
    }),
  );
  const about = { classIndex: classes[0]!, label: labels[0]!, score: scores[0]! };
  return { path: path!, photo: photo!, overlay: overlay!, ...about };
}
