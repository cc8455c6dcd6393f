/** Pixels → PNG. */
import { openSharp } from './decode/open-sharp.js';
import type { RgbImage } from './pixels/rgb-image.js';

/** Encodes pixels. Throws `DEPENDENCY_MISSING` without sharp. */
export async function encodePng({ data, height, width }: RgbImage): Promise<Uint8Array> {
  const sharp = await openSharp();
  return await sharp(data, { raw: { height, width, channels: 3 } })
    .png()
    .toBuffer();
}
