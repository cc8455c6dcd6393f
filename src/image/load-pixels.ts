/** Image file → the pixels that a model is fed, by the shorter way where there is one. */
import { decodeBytes, isWholeJpeg } from './decode/decode.js';
import type { Size } from './pixels/geometry.js';
import { readImageFile, type ImageSource, type StampTaker } from './pixels/image-file.js';
import type { Reduction } from './decode/reduction.js';
import type { RgbImage } from './pixels/rgb-image.js';
import type { Transform } from './transform.js';

/** Transformed pixels, and what they were made of. */
export interface LoadedPixels {
  readonly image: RgbImage;
  /** Size of the file's image. */
  readonly from: Size;
  readonly reduction: Reduction;
  /** Milliseconds of reading and decoding. */
  readonly decodeMs: number;
  readonly resampleMs: number;
}

/**
 * Reads, decodes and transforms an image.
 *
 * @param into - Takes the pixels instead of a new array.
 * @param taker - Takes the file's stamp, also of one that fails.
 * @throws {@link TapirError} as `decodeImage` does.
 */
export async function loadPixels(
  source: ImageSource,
  transform: Transform,
  into?: Uint8Array,
  taker?: StampTaker,
): Promise<LoadedPixels> {
  const started = performance.now();
  const bytes = readImageFile(source, taker);
  const direct = isWholeJpeg(bytes, transform.options) ? transform.applyToJpeg(bytes, into) : undefined;
  if (direct) {
    const { source: from, resampleMs } = direct;
    const decodeMs = performance.now() - started - resampleMs;
    const { height, width, data } = direct;
    return { image: { height, width, data }, from, reduction: 1, decodeMs, resampleMs };
  }
  const decoded = await decodeBytes(source, bytes, transform.options);
  const decodedAt = performance.now();
  const image = transform.apply(decoded, into);
  const { source: from, reduction } = decoded;
  return { image, from, reduction, decodeMs: decodedAt - started, resampleMs: performance.now() - decodedAt };
}
