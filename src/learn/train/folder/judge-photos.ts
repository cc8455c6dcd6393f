/** What a trained model says of each held-out photo. */
import { embedItems } from '../../../datasets/embed/embed-images.js';
import { setUpEmbedding } from '../../../datasets/embed/embed-options.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import { tryThumbnail } from '../../../photos/images/thumbnail.js';
import type { Transform } from '../../../photos/images/transform/transform.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { softmax } from '../../../onnx/tensor/vectors/softmax.js';
import { highest } from '../../../onnx/tensor/vectors/largest.js';
import type { ClassImage } from './class-folders.js';

/** Wrong photos that are shown: those that the model is most sure of. */
const MOST_WRONG = 24;
const PICTURE_SIDE = 96;

/** A photo that the model takes for another class. */
export interface WrongPhoto {
  readonly path: string;
  readonly label: number;
  readonly predicted: number;
  /** Of the predicted class and of the photo's own, from 0 to 1. */
  readonly probabilities: readonly [predicted: number, own: number];
  /** WebP in base64; null if the file cannot be read any more. */
  readonly picture: string | null;
}

/** How the held-out photos are classified. */
export interface Judgement {
  /** Photos of each class, a row, by the class that is predicted, a column. */
  readonly confusion: readonly (readonly number[])[];
  /** The surest first. */
  readonly wrong: readonly WrongPhoto[];
}

/** Classifies photos with a model whose first output is a score for each class. Photos that cannot be read are left out. */
export async function judgePhotos(
  model: OnnxModel,
  images: readonly ClassImage[],
  classes: number,
  transform: Transform,
  signal: AbortSignal | undefined,
): Promise<Judgement> {
  const confusion = Array.from({ length: classes }, () => Array.from({ length: classes }, () => 0));
  const wrong: (Omit<WrongPhoto, 'picture'> & { readonly index: number })[] = [];
  const scoresAt = { [`tensor:${model.outputs[0]!.name}`]: 'scores' } as const;
  await using extractor = await createFeatureExtractor(model, scoresAt);
  const setup = setUpEmbedding(extractor, { transform, signal });
  for await (const { index, features } of embedItems(extractor, images, setup)) {
    if (!features) continue;
    const { label, path } = images[index]!;
    const scores = softmax(Float32Array.from(features['scores']!.data as Float32Array));
    const predicted = highest(scores);
    confusion[label]![predicted]!++;
    if (predicted === label) continue;
    wrong.push({ index, path, label, predicted, probabilities: [scores[predicted]!, scores[label]!] });
  }
  const surest = wrong.toSorted((a, b) => b.probabilities[0] - a.probabilities[0]).slice(0, MOST_WRONG);
  const pictured = surest.map(async ({ index, ...photo }): Promise<WrongPhoto> => {
    const picture = await tryThumbnail(images[index]!.image, PICTURE_SIDE);
    return Object.assign(photo, { picture });
  });
  return { confusion, wrong: await Promise.all(pictured) };
}
