/** Image file → thumbnail. */
import { isImageError } from './file/image-errors.js';
import { openPicture } from './decode/picture.js';
import type { Tile } from './pixels/tile-grid.js';
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
  const options = {
    limitPixels,
    decode: 'fast',
    orientation: 'exif',
    alpha: 'drop',
    resize: maxSide,
  } as const;
  return encodeWebp(await decodeImage(file, options), maxSide, QUALITY);
}

/** Makes a thumbnail of a tile of a picture. Throws as `openPicture` does. */
async function makeTileThumbnail(file: ImageFile, tile: Tile, maxSide: number): Promise<Uint8Array> {
  const { limitPixels } = TRANSFORM_PRESETS.ImageNet1K_V1;
  const picture = await openPicture(file, { limitPixels, orientation: 'ignore', alpha: 'drop' });
  try {
    const factor = Math.min(1, maxSide / Math.max(tile.width, tile.height));
    const sideOf = (side: number): number => Math.max(1, Math.round(side * factor));
    const size = { height: sideOf(picture.height), width: sideOf(picture.width) };
    // The picture may have changed since: what is left of the tile is shown.
    const cut = (start: number, length: number, side: number): [number, number] => {
      const from = Math.min(side - 1, Math.round(start * factor));
      return [from, Math.min(side - from, sideOf(length))];
    };
    const [top, height] = cut(tile.y, tile.height, size.height);
    const [left, width] = cut(tile.x, tile.width, size.width);
    const sampling = { interpolation: 'bilinear', resampler: 'pillow' } as const;
    const image = await picture.scaled(size, sampling).read({ top, left, height, width });
    return await encodeWebp(image, maxSide, QUALITY);
  } finally {
    await picture.close();
  }
}

/** A thumbnail of an image, or of a tile of it, as WebP in base64; null if the image cannot be read. */
export async function tryThumbnail(
  image: ImageFile | (() => Promise<ImageFile>),
  maxSide: number,
  tile: Tile | null = null,
): Promise<string | null> {
  try {
    const file = typeof image === 'function' ? await image() : image;
    const webp = tile ? await makeTileThumbnail(file, tile, maxSide) : await makeThumbnail(file, maxSide);
    return Buffer.from(webp).toString('base64');
  } catch (error) {
    if (isImageError(error)) return null;
    throw error;
  }
}
