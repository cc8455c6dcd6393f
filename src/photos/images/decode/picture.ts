/** Pictures of any size, of which regions are read: a tiled TIFF from its file, all others decoded once. */
import { emptyImage, tooLargeImage, truncatedImage, unreadableImage } from '../file/image-errors.js';
import {
  FileParts,
  labelOf,
  readImageFile,
  stampOf,
  type ImageFile,
  type StampTaker,
} from '../file/image-file.js';
import { FORMATS, readMarks } from '../formats/format-table.js';
import { imageFormat, type ImageFormat } from '../formats/image-format.js';
import { describeForeign } from '../formats/unread-formats.js';
import type { Marks } from '../formats/marks.js';
import { inMemory, readTiffPages, type TiffFile, type TiffPage } from '../formats/tiff.js';
import { readJpegFrame } from '../jpeg/jpeg-segments.js';
import type { Size } from '../pixels/geometry.js';
import { turned, type RgbImage } from '../pixels/rgb-image.js';
import type { Sampling } from '../resample/kernel.js';
import { resampleRegion, type ImageRegions } from '../resample/resample.js';
import { CMYK, decodeBytes, failureOf, readTiffPixels } from './decode.js';
import type { DecodeOptions } from './decode-options.js';
import { decodeOnce, inFile, inMemoryRegions, type OpenRegions, type SharpImage } from './image-regions.js';

/** How the pixels of a picture are read. */
export type PictureOptions = Pick<DecodeOptions, 'orientation' | 'alpha' | 'limitPixels'>;

/** A picture at one size, opened when its first region is read. */
interface Level extends Size {
  open(): Promise<OpenRegions>;
}

/** Larger pictures are refused, whatever their file says. */
const MOST_PIXELS = 1e11;
/** The most pixels of a picture that is decoded once: 6 GiB of a temporary file. */
const MOST_DECODED = 2 ** 31 - 1;
/** The most pixels of a tile in a TIFF, which is decoded as a whole. */
const MOST_IN_TILE = 2 ** 26;
/** Bytes that tell the format. */
const START_BYTES = 4096;

/** Formats that sharp decodes from top to bottom. Pictures of other formats are decoded in memory, up to `limitPixels`. */
const STREAMED: ReadonlySet<ImageFormat> = new Set(['jpeg', 'png', 'webp', 'avif']);

/** A picture that is open. Close it: it may have a temporary file. */
export class Picture implements Size {
  readonly height: number;
  readonly width: number;
  readonly marks: Marks;
  /** Whether regions are read from the file, so that several threads can share the work. */
  readonly isRandom: boolean;
  /** The full size, then the smaller pages of a pyramid. */
  readonly #levels: readonly Level[];
  readonly #open = new Map<Level, Promise<OpenRegions>>();
  readonly #file: FileParts | undefined;

  /** Use {@link openPicture}. @param file - Closed with the picture. */
  constructor(levels: readonly [Level, ...Level[]], marks: Marks, isRandom: boolean, file?: FileParts) {
    this.#levels = levels;
    this.#file = file;
    this.height = levels[0].height;
    this.width = levels[0].width;
    this.marks = marks;
    this.isRandom = isRandom;
  }

  /** The picture resized: the page of a pyramid that has exactly this size, else resampled from the full size. */
  scaled(size: Size, sampling: Sampling): ImageRegions {
    const exact = this.#levels.find(({ height, width }) => height === size.height && width === size.width);
    if (exact) return this.#regionsOf(exact);
    const full = this.#regionsOf(this.#levels[0]!);
    return { ...size, read: (region) => resampleRegion(full, size, region, sampling) };
  }

  /** The whole picture to look at, from the smallest page of a pyramid that has `maxSide` pixels a side. */
  async preview(maxSide: number): Promise<RgbImage> {
    const sideOf = ({ height, width }: Size): number => Math.max(height, width);
    const level = this.#levels.reduce((best, one) =>
      sideOf(one) >= maxSide && sideOf(one) < sideOf(best) ? one : best,
    );
    return (await this.#opened(level)).shrunk(maxSide);
  }

  #regionsOf(level: Level): ImageRegions {
    const { height, width } = level;
    return { height, width, read: async (region) => (await this.#opened(level)).read(region) };
  }

  #opened(level: Level): Promise<OpenRegions> {
    let opened = this.#open.get(level);
    if (!opened) this.#open.set(level, (opened = level.open()));
    return opened;
  }

  async close(): Promise<void> {
    this.#file?.close();
    for (const opened of this.#open.values()) await (await opened.catch(() => undefined))?.close();
  }
}

/**
 * Opens a picture. Of a tiled TIFF, pyramids included, only directories are read now; of its file, only the parts that regions need.
 *
 * @param taker - Receives the file's stamp.
 * @throws {@link TapirError} `IMAGE_*`; `DEPENDENCY_MISSING`.
 */
export async function openPicture(
  file: ImageFile,
  options: PictureOptions,
  taker?: StampTaker,
): Promise<Picture> {
  const parts = typeof file === 'string' ? new FileParts(file) : undefined;
  const tiff = parts ?? inMemory(file as Uint8Array);
  try {
    if (tiff.length === 0) throw emptyImage(labelOf(file));
    const length = Math.min(START_BYTES, tiff.length);
    const { buffer, byteOffset } = tiff.view(0, length);
    const isTiff = imageFormat(new Uint8Array(buffer, byteOffset, length)) === 'tiff';
    if (!parts) readImageFile(file, taker);
    else if (isTiff && taker) taker.stamp = await stampOf(file as string, taker);
    if (isTiff) return openTiff(file, tiff, options, parts);
    const picture = await openOther(file, options, taker);
    parts?.close();
    return picture;
  } catch (error) {
    parts?.close();
    throw error;
  }
}

async function openOther(
  file: ImageFile,
  options: PictureOptions,
  taker: StampTaker | undefined,
): Promise<Picture> {
  const bytes = readImageFile(file, taker);
  const label = labelOf(file);
  const format = imageFormat(bytes);
  if (!format) throw unreadableImage(label, describeForeign(bytes));
  const marks = readMarks(bytes);
  let size: Size | undefined;
  const facts = { label, format, limitPixels: MOST_DECODED, sizeBytes: bytes.length, isCutOff: false, size };
  try {
    size = FORMATS[format].readSize(bytes);
    facts.size = size;
    facts.isCutOff = FORMATS[format].isCutOff(bytes);
  } catch (error) {
    throw failureOf(error, facts);
  }
  if (size && STREAMED.has(format)) {
    checkSize(label, size, MOST_DECODED);
    const isCmyk = format === 'jpeg' && readJpegFrame(bytes)?.components === CMYK;
    const { alpha, orientation } = options;
    const image: SharpImage = { input: bytes, page: 0, isCmyk, alpha, facts };
    const whole = () =>
      decodeBytes(file, bytes, { ...options, limitPixels: MOST_DECODED, decode: 'exact', resize: null });
    const regions = await decodeOnce(image, size, orientation === 'exif', whole);
    return new Picture([{ ...sizeOf(regions), open: () => Promise.resolve(regions) }], marks, false);
  }
  const image = await decodeBytes(file, bytes, { ...options, decode: 'exact', resize: null });
  return new Picture(
    [{ ...sizeOf(image), open: () => Promise.resolve(inMemoryRegions(image)) }],
    marks,
    false,
  );
}

function sizeOf({ height, width }: Size): Size {
  return { height, width };
}

/** Throws `IMAGE_TOO_LARGE`. */
function checkSize(label: string, { height, width }: Size, most: number): void {
  if (height * width > most)
    throw tooLargeImage(label, most, undefined, 'cut it into smaller pictures, or store it as a tiled TIFF');
}

function openTiff(
  file: ImageFile,
  tiff: TiffFile,
  options: PictureOptions,
  parts: FileParts | undefined,
): Picture {
  const label = labelOf(file);
  const facts = {
    label,
    format: 'tiff',
    limitPixels: MOST_DECODED,
    sizeBytes: tiff.length,
    isCutOff: false,
  } as const;
  let pages: readonly TiffPage[];
  try {
    pages = readTiffPages(tiff);
  } catch (error) {
    throw failureOf(error, facts);
  }
  const [first, ...others] = pages;
  if (!first) throw truncatedImage(label, tiff.length, 'its directory is missing', undefined);
  if (first.width === 0 || first.height === 0)
    throw unreadableImage(label, 'its first directory has no image');
  // Names that end so would be taken for options of the decoder.
  const input = typeof file === 'string' && file.endsWith(']') ? readImageFile(file) : file;
  const levelOf = (page: TiffPage): Level => {
    const isTurned = page.orientation > 4;
    const image = (): SharpImage => {
      checkPage(label, page, tiff.length);
      try {
        return { input, page: page.page, ...readTiffPixels(page.colour, page.hasAlpha, options), facts };
      } catch (error) {
        throw failureOf(error, facts);
      }
    };
    // At once: what is wrong with the full size shows before the first tile.
    const known = page === first ? image() : undefined;
    return {
      ...(isTurned ? turned(page) : sizeOf(page)),
      open: async () =>
        isRegional(page) ? inFile(known ?? image(), page) : decodeOnce(known ?? image(), page, true),
    };
  };
  const smaller = others.filter((page) => page.orientation === 1 && (page.isReduced || page.tile !== null));
  const marks = { isTurned: false, isTransparent: first.hasAlpha };
  return new Picture([levelOf(first), ...smaller.map(levelOf)], marks, isRegional(first), parts);
}

/** Whether regions of a page are read from the file. Pillow turns TIFFs upright, so a turned one is decoded whole. */
function isRegional({ tile, orientation }: TiffPage): boolean {
  return tile !== null && orientation === 1;
}

function checkPage(label: string, page: TiffPage, sizeBytes: number): void {
  checkSize(label, page, isRegional(page) ? MOST_PIXELS : MOST_DECODED);
  if (page.tile && page.tile.height * page.tile.width > MOST_IN_TILE)
    throw tooLargeImage(`${label}: a tile of it`, MOST_IN_TILE, undefined, 'store it with smaller tiles');
  if (page.isCutOff())
    throw truncatedImage(label, sizeBytes, 'a strip or tile of its image is missing', undefined);
}
