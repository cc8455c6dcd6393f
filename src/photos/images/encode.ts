/** Pixels → WebP, for pages that show many pictures. */
import { openSharp } from './decode/open-sharp.js';
import type { RgbImage } from './pixels/rgb-image.js';

/** Encodes pixels, reduced to a longest side, with a quality from 1 to 100. Throws `DEPENDENCY_MISSING` without sharp. */
export async function encodeWebp(
  { data, height, width }: RgbImage,
  maxSide: number,
  quality: number,
): Promise<Uint8Array> {
  const sharp = await openSharp();
  return await sharp(data, { raw: { height, width, channels: 3 }, limitInputPixels: false })
    .resize(maxSide, maxSide, { fit: 'inside', withoutEnlargement: true })
    .webp({ quality, effort: 4 })
    .toBuffer();
}

/** Encodes pixels. Throws `DEPENDENCY_MISSING` without sharp. */
export async function encodePng({ data, height, width }: RgbImage): Promise<Uint8Array> {
  const sharp = await openSharp();
  return await sharp(data, { raw: { height, width, channels: 3 } })
    .png()
    .toBuffer();
}
