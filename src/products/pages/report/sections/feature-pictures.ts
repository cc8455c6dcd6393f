/** What an output sees in some images: places that look alike to the model have like colours, as `drawFeatures` has them. */
import { encodePng } from '../../../../photos/images/encode.js';
import { makeTensor } from '../../../../onnx/tensor/tensor.js';
import { COLOUR_CLIP, principalColours } from '../../../maps/principal-colours.js';
import { findMaps, type Maps } from '../../../maps/maps.js';
import { nameOf, type SampledImage } from '../collect/collect-inputs.js';
import type { CollectedOutput } from '../collect/collect-output.js';
import { makePicture } from './thumbnails.js';

/** A photo, and the colours of its places. */
export interface FeaturePicture {
  readonly name: string;
  /** WebP in base64; null if its file cannot be read. */
  readonly photo: string | null;
  /** PNG in base64, a pixel for each place. */
  readonly colours: string;
}

/** The pictures of an output. The same colour means the same in all of them. */
export interface FeaturePictures {
  readonly key: string;
  readonly pictures: readonly FeaturePicture[];
}

/** Longer side in pixels of a photo. */
const SIDE = 320;

/** Draws the rows of an output that were kept for it; undefined if they have no places, or too few channels. */
export async function makeFeaturePictures(
  { key, layout, drawn }: CollectedOutput,
  images: readonly SampledImage[],
  folder: string | undefined,
): Promise<FeaturePictures | undefined> {
  const maps: Maps[] = [];
  for (const { data } of drawn) {
    const found = findMaps(makeTensor('float32', [1, ...layout.dims], data), null, undefined);
    if (typeof found === 'string') return undefined;
    maps.push(found);
  }
  const colours = maps.length > 0 && (await principalColours(maps, COLOUR_CLIP));
  if (!colours) return undefined;
  const draw = async (place: number, i: number): Promise<FeaturePicture> => {
    const image = images[place]!;
    const [height, width] = maps[i]!.size;
    const png = await encodePng({ height, width, data: colours[i]! });
    const photo = folder === undefined ? null : await makePicture(folder, image, SIDE);
    return { name: nameOf(image), photo, colours: Buffer.from(png).toString('base64') };
  };
  return { key, pictures: await Promise.all(drawn.map(({ place }, i) => draw(place, i))) };
}
