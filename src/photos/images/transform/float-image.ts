/** Results of a transform in float32, where bytes cannot hold them. */
import type { Region, Size } from '../pixels/geometry.js';
import type { RgbImage } from '../pixels/rgb-image.js';
import type { visiblePart } from '../resample/resample-plan.js';

/** An image that was resized or padded in float32. */
export interface FloatImage extends Size {
  /** The normalised channels, one plane after the other. */
  readonly planes: Float32Array;
  /** The resized pixels as bytes, before they were normalised; to be looked at. */
  bytes(): Uint8Array;
}

/**
 * Normalises the part of a region that has pixels, and leaves zeros around it.
 *
 * @param values - A float for each channel and byte.
 * @param into - Receives the planes; a new array by default.
 */
export function padPlanes(
  { height, width, data }: RgbImage,
  part: ReturnType<typeof visiblePart>,
  { top, left }: Region,
  values: Float32Array,
  into: Float32Array | undefined,
): FloatImage {
  const channels = values.length / 256;
  const plane = height * width;
  const planes = into ?? new Float32Array(channels * plane);
  planes.fill(0);
  for (let channel = 0; channel < channels; channel++)
    for (let row = part.top - top; row < part.bottom - top; row++)
      for (let column = part.left - left; column < part.right - left; column++) {
        const at = row * width + column;
        planes[channel * plane + at] = values[channel * 256 + data[at * 3 + channel]!]!;
      }
  return { height, width, planes, bytes: () => data };
}
