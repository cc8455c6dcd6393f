/** Image file → a small picture of it. */
import { decodeImage, openSharp } from './decode/decode.js';
import type { ImageSource } from './pixels/image-file.js';
import { TRANSFORM_PRESETS } from './presets.js';

/** WebP's quality: at 96 pixels some 2 kB for a photo. */
const QUALITY = 62;

/** A small picture. */
export interface Thumbnail {
  readonly mime: 'image/webp';
  readonly bytes: Uint8Array;
}

/**
 * Makes a small picture of an image, upright and with the colours that a model is fed.
 *
 * @remarks Large JPEGs are reduced while they are decoded.
 * @param maxSide - Of the longer side, in pixels; a smaller image keeps its size.
 * @throws {@link TapirError} as `decodeImage` does.
 */
export async function makeThumbnail(source: ImageSource, maxSide: number): Promise<Thumbnail> {
  const { limitPixels } = TRANSFORM_PRESETS.ImageNet1K_V1;
  const { data, height, width } = await decodeImage(source, {
    limitPixels,
    decode: 'fast',
    orientation: 'exif',
    resize: maxSide,
  });
  const sharp = await openSharp();
  const bytes = await sharp(data, { raw: { height, width, channels: 3 }, limitInputPixels: limitPixels })
    .resize(maxSide, maxSide, { fit: 'inside', withoutEnlargement: true })
    .webp({ quality: QUALITY, effort: 4 })
    .toBuffer();
  return { mime: 'image/webp', bytes };
}
