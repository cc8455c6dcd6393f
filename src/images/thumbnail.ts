/** Image file → thumbnail. */
import { isImageError } from './file/image-errors.js';
import { decodeImage } from './decode/decode.js';
import { encodeWebp } from './encode.js';
import type { ImageFile } from './file/image-file.js';
import { TRANSFORM_PRESETS } from './transform/transform-options.js';

/** Quality of the WebP: about 2 kB for a photo of 96 pixels. */
const QUALITY = 62;

/**
 * Makes a thumbnail of an image as WebP, turned upright, with the colours that a model gets.
 *
 * @remarks Large JPEGs are reduced while they are decoded.
 * @param maxSide - Longest side in pixels; a smaller image keeps its size.
 * @throws {@link TapirError} as `decodeImage` does.
 */
export async function makeThumbnail(file: ImageFile, maxSide: number): Promise<Uint8Array> {
  const { limitPixels } = TRANSFORM_PRESETS.ImageNet1K_V1;
  const options = { limitPixels, decode: 'fast', orientation: 'exif', resize: maxSide } as const;
  return encodeWebp(await decodeImage(file, options), maxSide, QUALITY);
}

/** A thumbnail as WebP in base64; null if the image cannot be read. */
export async function tryThumbnail(
  image: ImageFile | (() => Promise<ImageFile>),
  maxSide: number,
): Promise<string | null> {
  try {
    const file = typeof image === 'function' ? await image() : image;
    return Buffer.from(await makeThumbnail(file, maxSide)).toString('base64');
  } catch (error) {
    if (isImageError(error)) return null;
    throw error;
  }
}
