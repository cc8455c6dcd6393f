/** Transformed images in shared memory. */
import type { RgbImage } from '../pixels/rgb-image.js';
import type { FloatImage } from './float-image.js';

/** A copy of the pixels, or of the bytes of the planes, in a SharedArrayBuffer. */
export function shareImage(image: RgbImage | FloatImage): RgbImage {
  const { height, width } = image;
  const { buffer, byteOffset, byteLength } = 'planes' in image ? image.planes : image.data;
  const data = new Uint8Array(new SharedArrayBuffer(byteLength));
  data.set(new Uint8Array(buffer, byteOffset, byteLength));
  return { height, width, data };
}
