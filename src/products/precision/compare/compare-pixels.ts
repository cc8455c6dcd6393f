/** Whether two transforms are the same, and how far their pixels are apart. */
import { fileOf, type SourceItem } from '../../../photos/feeds/items/source-item.js';
import { isImageError } from '../../../photos/images/file/image-errors.js';
import { loadImage } from '../../../photos/feeds/load-image.js';
import type { Transform } from '../../../photos/images/transform/transform.js';

/** An option that two transforms have different values for. */
export interface TransformDifference {
  readonly option: string;
  readonly a: unknown;
  readonly b: unknown;
}

/** The normalised pixels of two transforms, over the first images of a comparison. */
export interface PixelAgreement {
  readonly images: number;
  /** Images whose pixels are the same, bit for bit. */
  readonly identical: number;
  /** Mean absolute difference, in the units of the model's input. */
  readonly meanDifference: number;
  readonly maxDifference: number;
}

/** Options that change no value of the pixels: only their order in memory, and which images are refused. */
const WITHOUT_EFFECT = new Set(['layout', 'limitPixels']);
/** Enough for a mean, and decoded in less than a second. */
const MOST_IMAGES = 16;

/** The options that differ. */
export function compareTransforms(a: Transform, b: Transform): TransformDifference[] {
  const [one, other] = [a.options, b.options] as unknown as readonly Readonly<Record<string, unknown>>[];
  return Object.keys(one!)
    .filter((option) => !WITHOUT_EFFECT.has(option))
    .map((option) => ({ option, a: one![option], b: other![option] }))
    .filter((pair) => JSON.stringify(pair.a) !== JSON.stringify(pair.b));
}

/** Compares the pixels of images; null if they have different sizes or channels, or sizes of their own, or if no image can be read. */
export async function comparePixels(
  items: readonly SourceItem[],
  a: Transform,
  b: Transform,
): Promise<PixelAgreement | null> {
  const isSameSize =
    JSON.stringify([a.outputSize, a.channels]) === JSON.stringify([b.outputSize, b.channels]);
  if (!isSameSize || a.outputSize === null) return null;
  const transforms = [a, b].map((transform) => transform.with({ layout: 'nchw' }));
  let [images, identical, sum, count, maxDifference] = [0, 0, 0, 0, 0];
  for (const { image, error } of items.slice(0, MOST_IMAGES)) {
    if (error) continue;
    const pixels = await load(image, transforms);
    if (!pixels) continue;
    const [x, y] = pixels as [Float32Array, Float32Array];
    let most = 0;
    for (let i = 0; i < x.length; i++) {
      const difference = Math.abs(x[i]! - y[i]!);
      sum += difference;
      most = Math.max(most, difference);
    }
    images++;
    count += x.length;
    if (most === 0) identical++;
    maxDifference = Math.max(maxDifference, most);
  }
  return images === 0 ? null : { images, identical, meanDifference: sum / count, maxDifference };
}

/** Undefined for an image that cannot be read: embedding it reports that. */
async function load(
  image: SourceItem['image'],
  transforms: readonly Transform[],
): Promise<Float32Array[] | undefined> {
  try {
    const file = await fileOf({ image });
    const loaded = [];
    for (const transform of transforms) loaded.push((await loadImage(file, transform)).toTensor().data);
    return loaded;
  } catch (error) {
    if (isImageError(error)) return undefined;
    throw error;
  }
}
