/** Image file → thumbnail. */
import { isImageError } from './file/image-errors.js';
import { decodeImage } from './decode/decode.js';
import { encodeWebp } from './encode.js';
import type { ImageFile } from './file/image-file.js';
import { TRANSFORM_PRESETS } from './transform/transform-options.js';

/** Quality of the WebP: about 2 kB for a photo of 96 pixels. */
const QUALITY = 62;

/** A small picture in a file format. */
export interface Thumbnail {
  readonly mime: 'image/webp';
  readonly bytes: Uint8Array;
}

/**
 * Makes a thumbnail of an image, turned upright, with the colours that a model gets.
 *
 * @remarks Large JPEGs are reduced while they are decoded.
 * @param maxSide - Longest side in pixels; a smaller image keeps its size.
 * @throws {@link TapirError} as `decodeImage` does.
 */
export async function makeThumbnail(file: ImageFile, maxSide: number): Promise<Thumbnail> {
  const { limitPixels } = TRANSFORM_PRESETS.ImageNet1K_V1;
  const options = { limitPixels, decode: 'fast', orientation: 'exif', resize: maxSide } as const;
  const bytes = await encodeWebp(await decodeImage(file, options), maxSide, QUALITY);
  return { mime: 'image/webp', bytes };
}

/** A thumbnail as WebP in base64; null if the image cannot be read. */
export async function tryThumbnail(
  image: ImageFile | (() => Promise<ImageFile>),
  maxSide: number,
): Promise<string | null> {
  try {
    const file = typeof image === 'function' ? await image() : image;
    return Buffer.from((await makeThumbnail(file, maxSide)).bytes).toString('base64');
  } catch (error) {
    if (isImageError(error)) return null;
    throw error;
  }
}
