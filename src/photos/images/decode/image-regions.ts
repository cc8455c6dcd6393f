/** Regions of an image: of its file, of memory, or of a temporary file that it is decoded into. */
import { join } from 'node:path';
import { TemporaryFolder } from '../../../base/temporary-folder.js';
import type { Region, Size } from '../pixels/geometry.js';
import { cutRegion, type RgbImage } from '../pixels/rgb-image.js';
import type { ImageRegions } from '../resample/resample.js';
import { failureOf, inColours, readPixels, type FailedFile } from './decode.js';
import type { DecodeOptions } from './decode-options.js';
import { openSharp, type Sharp } from './open-sharp.js';

/** Regions that hold memory or a file until they are closed. */
export interface OpenRegions extends ImageRegions {
  /** The whole image to look at. One that is not held in memory has at most `maxSide` pixels a side. */
  shrunk(maxSide: number): Promise<RgbImage>;
  close(): Promise<void>;
}

/** An image as sharp opens it. */
export interface SharpImage {
  readonly input: string | Uint8Array;
  readonly page: number;
  readonly isCmyk: boolean;
  readonly alpha: DecodeOptions['alpha'];
  /** For the error if it cannot be decoded. */
  readonly facts: FailedFile;
}

/** Images up to this size are held in memory: 48 MiB. */
const MOST_HELD = 2 ** 24;
/** The side of a tile in a temporary file. */
const TILE_SIDE = 512;

/** Regions of decoded pixels. */
export function inMemoryRegions(image: RgbImage): OpenRegions {
  const { height, width } = image;
  const read = (region: Region): Promise<RgbImage> => Promise.resolve(cutRegion(image, region));
  return { height, width, read, shrunk: () => Promise.resolve(image), close: () => Promise.resolve() };
}

/** Regions of a tiled TIFF. */
export function inFile(image: SharpImage, { height, width }: Size): OpenRegions {
  const pixelsOf = (opened: Sharp): Promise<RgbImage> =>
    readPixels(inColours(opened, image.isCmyk, image), image.isCmyk, image);
  const read = (region: Region): Promise<RgbImage> =>
    explained(image, async () => pixelsOf((await open(image, false)).extract(region)));
  const shrunk = (maxSide: number): Promise<RgbImage> =>
    explained(image, async () =>
      pixelsOf((await open(image, true)).resize(maxSide, maxSide, { fit: 'inside' })),
    );
  return { height, width, read, shrunk, close: () => Promise.resolve() };
}

/**
 * Decodes an image once, from top to bottom: into memory, or a large one into a temporary file, which libvips fills strip by strip.
 *
 * @param size - As its header says.
 * @param isTurned - Whether to turn it upright.
 * @param whole - Decodes it into memory; by default, sharp does.
 */
export function decodeOnce(
  image: SharpImage,
  { height, width }: Size,
  isTurned: boolean,
  whole?: () => Promise<RgbImage>,
): Promise<OpenRegions> {
  return explained(image, async () => {
    if (whole && height * width <= MOST_HELD) return inMemoryRegions(await whole());
    const opened = await open(image, true);
    const pixels = inColours(isTurned ? opened.autoOrient() : opened, image.isCmyk, image);
    if (height * width <= MOST_HELD) return inMemoryRegions(await readPixels(pixels, image.isCmyk, image));
    const folder = await TemporaryFolder.create();
    const close = (): Promise<void> => folder[Symbol.asyncDispose]();
    try {
      const input = join(folder.path, 'picture.tif');
      const tiles = { tile: true, tileWidth: TILE_SIDE, tileHeight: TILE_SIDE } as const;
      const written = await pixels.tiff({ ...tiles, compression: 'none', bigtiff: true }).toFile(input);
      return { ...inFile({ ...image, input, page: 0 }, written), close };
    } catch (error) {
      // Before the space is free again.
      const failure = failureOf(error, image.facts);
      await close();
      throw failure;
    }
  });
}

async function open({ input, page }: SharpImage, sequentialRead: boolean): Promise<Sharp> {
  const sharp = await openSharp();
  // libvips keeps what it has opened by path, and would not notice that the file was replaced.
  const place = typeof input === 'string' ? `${input}[revalidate=true]` : input;
  return sharp(place, {
    page,
    sequentialRead,
    ignoreIcc: true,
    // Checked by the header.
    limitInputPixels: false,
    failOn: 'warning',
  });
}

async function explained<Result>({ facts }: SharpImage, step: () => Promise<Result>): Promise<Result> {
  try {
    return await step();
  } catch (error) {
    throw failureOf(error, facts);
  }
}
