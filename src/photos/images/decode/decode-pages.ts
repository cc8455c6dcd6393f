/** Pages of a GIF or WebP → 8-bit RGB, as a player shows them: what earlier pages leave shows through. */
import { truncatedImage, tooLargeImage, unreadableImage } from '../file/image-errors.js';
import { labelOf, type ImageFile } from '../file/image-file.js';
import { FORMATS } from '../formats/format-table.js';
import { imageFormat } from '../formats/image-format.js';
import { countPages } from '../formats/pages.js';
import type { RgbImage } from '../pixels/rgb-image.js';
import { failureOf, inColours, readPixels, type FailedFile } from './decode.js';
import type { DecodeOptions } from './decode-options.js';
import { openSharp } from './open-sharp.js';

/** Pages at equal distances. */
export interface PageRange {
  readonly first: number;
  readonly count: number;
  readonly stride: number;
}

/** The most pixels that are decoded at once. */
const MOST_AT_ONCE = 2 ** 24;

/**
 * Decodes pages, a few at once: the decoder goes through all pages before the first of each call.
 *
 * @throws {@link TapirError} `IMAGE_*`; `DEPENDENCY_MISSING`.
 */
export async function* decodePages(
  file: ImageFile,
  bytes: Uint8Array,
  { first, count, stride }: PageRange,
  options: Pick<DecodeOptions, 'alpha' | 'limitPixels' | 'orientation'>,
): AsyncGenerator<RgbImage> {
  const label = labelOf(file);
  const format = imageFormat(bytes);
  const { limitPixels } = options;
  if (format !== 'gif' && format !== 'webp') throw unreadableImage(label, 'it is no GIF or WebP any more');
  const facts: FailedFile = { label, format, limitPixels, sizeBytes: bytes.length, isCutOff: false };
  const end = first + (count - 1) * stride + 1;
  try {
    const size = FORMATS[format].readSize(bytes);
    if (size && size.height * size.width > limitPixels) throw tooLargeImage(label, limitPixels);
    const there = countPages(bytes);
    if (there < end)
      throw truncatedImage(label, bytes.length, `page ${there} of ${end} is missing`, undefined);
    const sharp = await openSharp();
    const atOnce = Math.max(
      1,
      Math.floor(MOST_AT_ONCE / Math.max(1, (size?.height ?? 1) * (size?.width ?? 1))),
    );
    for (let page = first; page < end;) {
      const pages = Math.min(atOnce, end - page);
      // The size was checked: libvips would count all pages as one.
      const opened = sharp(bytes, {
        page,
        pages,
        ignoreIcc: true,
        limitInputPixels: false,
        failOn: 'warning',
      });
      const tall = await readPixels(inColours(opened, false, options), false, options);
      const height = tall.height / pages;
      const pageBytes = height * tall.width * 3;
      let at = page;
      for (; at < page + pages; at += stride) {
        const data = tall.data.subarray((at - page) * pageBytes, (at - page + 1) * pageBytes);
        yield { height, width: tall.width, data };
      }
      page = at;
    }
  } catch (error) {
    throw failureOf(error, facts);
  }
}
