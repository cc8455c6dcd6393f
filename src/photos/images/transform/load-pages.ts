/** Pages of a GIF or WebP → the pixels of the frames of a clip. */
import { decodePages, type PageRange } from '../decode/decode-pages.js';
import { readImageFile, type ImageFile, type StampTaker } from '../file/image-file.js';
import { readMarks } from '../formats/format-table.js';
import type { Size } from '../pixels/geometry.js';
import type { LoadedPixels } from './load-pixels.js';
import type { Transform } from './transform.js';

/**
 * Reads, decodes and transforms pages of a GIF or WebP.
 *
 * @param into - Receives their pixels, one page after the other.
 * @param taker - Receives the file's stamp, even if decoding then fails.
 */
export async function loadPages(
  file: ImageFile,
  transform: Transform,
  pages: PageRange,
  into: Uint8Array,
  taker: StampTaker,
): Promise<Size & Pick<LoadedPixels, 'marks' | 'decodeMs' | 'resampleMs'>> {
  const started = performance.now();
  const bytes = readImageFile(file, taker);
  const each = into.length / pages.count;
  let [at, resampleMs, height, width] = [0, 0, 0, 0];
  for await (const page of decodePages(file, bytes, pages, transform.options)) {
    const decodedAt = performance.now();
    transform.apply(page, into.subarray(at * each, (at + 1) * each));
    resampleMs += performance.now() - decodedAt;
    ({ height, width } = page);
    at++;
  }
  const decodeMs = performance.now() - started - resampleMs;
  return { height, width, marks: readMarks(bytes), decodeMs, resampleMs };
}
