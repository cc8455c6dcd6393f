/** Image file → 8-bit RGB, as Pillow's `convert("RGB")` gives it. The only import of sharp. */
import type { Sharp, SharpOptions } from 'sharp';
import { TapirError, reasonOf } from '../../base/errors.js';
import { readBmpHeader } from '../bmp/bmp-header.js';
import { decodeBmp } from '../bmp/bmp.js';
import { toRgb } from './colour.js';
import { FORMATS_SHOWN, imageFormat, type ImageFormat } from './format.js';
import type { Size } from '../pixels/geometry.js';
import { fillOutside, readGifFrame, withoutTransparency } from './gif.js';
import { readJpegFrame, readOpaqueWebp, readTiffColour } from './headers.js';
import {
  CutOff,
  emptyImage,
  tooLargeImage,
  truncatedImage,
  unreadableImage,
} from '../pixels/image-errors.js';
import { decodeJpeg, type JpegOptions } from '../jpeg/jpeg.js';
import { labelOf, readImageFile, withImagePath, type ImageSource } from '../pixels/image-file.js';
import type { TransformOptions } from '../presets.js';
import { chooseReduction, sourceSize, type Reduction } from './reduction.js';
import type { RgbImage } from '../resample/resample.js';
import { isTruncated } from './truncation.js';

/** How an image is read; `resize` says how much of it `decode: 'fast'` must leave. */
export type DecodeOptions = Pick<TransformOptions, 'orientation' | 'limitPixels' | 'decode' | 'resize'>;

/** Decoded pixels, and what they were decoded from. */
export interface DecodedImage extends RgbImage {
  /** Size of the file's image, after its orientation was applied; larger than the pixels' if they were reduced. */
  readonly source: Size;
  /** How far the decoder reduced each side; more than 1 only with `decode: 'fast'`. */
  readonly reduction: Reduction;
}

/** Number of components of a JPEG that is stored as ink. */
const CMYK = 4;

/** sharp itself; internal, like all that takes it. */
export type SharpFactory = (input: Uint8Array | string, options: SharpOptions) => Sharp;
let loaded: Promise<SharpFactory> | undefined;
let versions: DecoderVersions | undefined;

/** Versions of the decoder, for records. */
export interface DecoderVersions {
  readonly sharp: string;
  readonly libvips: string;
}

async function loadSharp(): Promise<SharpFactory> {
  try {
    const { default: sharp } = await import('sharp');
    // One thread per image and nothing kept: the images of a batch are decoded beside each other instead.
    sharp.concurrency(1);
    sharp.cache(false);
    versions = { sharp: sharp.versions.sharp ?? '', libvips: sharp.versions.vips };
    return (input, options) => sharp(input, options);
  } catch (error) {
    throw new TapirError(
      'DEPENDENCY_MISSING',
      `sharp does not load: ${reasonOf(error)}; install it with "npm install sharp"`,
      {
        details: { package: 'sharp', reason: reasonOf(error) },
        cause: error,
      },
    );
  }
}

/** Loads sharp, once. Throws `DEPENDENCY_MISSING`. */
export function openSharp(): Promise<SharpFactory> {
  loaded ??= loadSharp();
  return loaded;
}

/** What this thread decodes with; undefined if no image has needed it yet. */
export function decoderVersions(): DecoderVersions | undefined {
  return versions;
}

/**
 * Reads and decodes an image: the first frame, no colour profile applied, alpha dropped (not blended), grey repeated, CMYK
 * converted by Pillow's formula.
 *
 * @throws {@link TapirError} `IMAGE_*`, `IMAGE_TOO_LARGE` before pixels are allocated; `DEPENDENCY_MISSING`.
 */
export async function decodeImage(source: ImageSource, options: DecodeOptions): Promise<DecodedImage> {
  return decodeBytes(source, readImageFile(source), options);
}

/** Whether it is a JPEG that is decoded at full size: always, unless `decode: 'fast'` leaves something out. */
export function isWholeJpeg(bytes: Uint8Array, options: DecodeOptions): boolean {
  return imageFormat(bytes) === 'jpeg' && !planReduction(bytes, 'jpeg', options);
}

/** Which JPEGs this package decodes itself. */
export function jpegOptions({ orientation, limitPixels }: DecodeOptions): JpegOptions {
  return { limitPixels, isUpright: orientation === 'exif' };
}

/** {@link decodeImage} of a file that is read already. */
export async function decodeBytes(
  source: ImageSource,
  bytes: Uint8Array,
  options: DecodeOptions,
): Promise<DecodedImage> {
  const label = labelOf(source);
  const format = imageFormat(bytes);
  if (bytes.byteLength === 0) throw emptyImage(label);
  if (!format) throw unreadableImage(label, `its format is not ${FORMATS_SHOWN}`);
  if (format === 'bmp') return decodeOwn(bytes, label, options.limitPixels);
  const plain = isWholeJpeg(bytes, options) ? decodeJpeg(bytes, jpegOptions(options)) : undefined;
  if (plain) return whole(plain);
  // Not even loaded for what this package decodes itself.
  const sharp = await openSharp();
  try {
    const plan = planReduction(bytes, format, options);
    if (!plan) return whole(await decodeWhole(sharp, bytes, format, options));
    const { size, reduction, isCmyk } = plan;
    if (size.height * size.width > options.limitPixels) throw tooLargeImage(label, options.limitPixels);
    const decode = (path: string): Promise<RgbImage> =>
      decodeWith(sharp, path + plan.suffix, format, isCmyk, options);
    const image = await withImagePath(source, bytes, decode);
    const full = sourceSize(size, image, reduction);
    // JPEG leaves out what makes no whole pixel at the right and the bottom; WebP fits all of it in.
    const span = format === 'jpeg' ? { span: inPixels(full, reduction) } : {};
    return { ...image, ...span, source: full, reduction };
  } catch (error) {
    if (error instanceof TapirError) throw error;
    if (reasonOf(error).startsWith('Input image exceeds pixel limit'))
      throw tooLargeImage(label, options.limitPixels, error);
    const { byteLength } = bytes;
    if (isTruncated(bytes, format))
      throw truncatedImage(label, byteLength, 'the end of its image is missing', error);
    throw unreadableImage(label, decoderReason(error, format), error);
  }
}

function whole(image: RgbImage): DecodedImage {
  return { ...image, source: { height: image.height, width: image.width }, reduction: 1 };
}

/** BMP, which this package decodes itself. */
function decodeOwn(bytes: Uint8Array, label: string, limitPixels: number): DecodedImage {
  try {
    const header = readBmpHeader(bytes);
    const size = { height: header.height, width: header.width };
    if (size.height * size.width > limitPixels) throw tooLargeImage(label, limitPixels);
    return { ...size, data: decodeBmp(bytes, header), source: size, reduction: 1 };
  } catch (error) {
    if (error instanceof TapirError) throw error;
    if (error instanceof CutOff) throw truncatedImage(label, bytes.byteLength, error.message, error);
    throw unreadableImage(label, reasonOf(error), error);
  }
}

async function decodeWith(
  sharp: SharpFactory,
  input: Uint8Array | string,
  format: ImageFormat,
  isCmyk: boolean,
  { orientation, limitPixels }: DecodeOptions,
): Promise<RgbImage> {
  const opened = sharp(input, { ignoreIcc: true, limitInputPixels: limitPixels, failOn: 'warning' });
  // Pillow turns a TIFF upright while it loads it, and no other format.
  const image = orientation === 'exif' || format === 'tiff' ? opened.autoOrient() : opened;
  // Dropped by libvips as it goes, in place of a second pass over the pixels.
  const pipeline = isCmyk ? image.pipelineColourspace('cmyk').toColourspace('cmyk') : image.removeAlpha();
  const { data, info } = await pipeline.raw().toBuffer({ resolveWithObject: true });
  return { height: info.height, width: info.width, data: toRgb(data, info.channels, isCmyk) };
}

function inPixels({ height, width }: Size, reduction: Reduction): Size {
  return { height: height / reduction, width: width / reduction };
}

/** How an image is to be reduced. */
interface ReductionPlan {
  readonly size: Size;
  readonly reduction: Reduction;
  readonly isCmyk: boolean;
  /**
   * libvips takes options of its loaders in brackets behind a path. sharp's own resize would leave the choice of the reduction
   * to itself, and go on to resize.
   */
  readonly suffix: string;
}

/** Undefined where an image cannot be reduced, or need not be. */
function planReduction(
  bytes: Uint8Array,
  format: ImageFormat,
  { decode, resize, orientation }: DecodeOptions,
): ReductionPlan | undefined {
  if (decode !== 'fast') return undefined;
  const frame = format === 'jpeg' ? readJpegFrame(bytes) : undefined;
  const size = format === 'webp' ? readOpaqueWebp(bytes) : frame;
  if (!size) return undefined;
  const reduction = chooseReduction(size, resize, orientation === 'exif');
  if (reduction === 1) return undefined;
  const suffix = format === 'webp' ? `[scale=${1 / reduction}]` : `[shrink=${reduction}]`;
  return { size, reduction, suffix, isCmyk: frame?.components === CMYK };
}

/** The image at full size; what its format needs to be told of is read from its header, not by a second call of the decoder. */
async function decodeWhole(
  sharp: SharpFactory,
  bytes: Uint8Array,
  format: ImageFormat,
  options: DecodeOptions,
): Promise<RgbImage> {
  if (format === 'gif') {
    const shown = readGifFrame(bytes);
    if (!shown) throw new NotRead('its first frame is damaged or cut off');
    const image = await decodeWith(sharp, withoutTransparency(bytes, shown), format, false, options);
    fillOutside(image.data, image, shown);
    return image;
  }
  const colour = format === 'tiff' ? readTiffColour(bytes) : 'other';
  // libvips would give these out as if they were RGB.
  if (colour === 'ycbcr')
    throw new NotRead('its colours are YCbCr without JPEG compression, which is not read');
  const isCmyk = colour === 'cmyk' || (format === 'jpeg' && readJpegFrame(bytes)?.components === CMYK);
  return decodeWith(sharp, bytes, format, isCmyk, options);
}

/** A reason of this package's own. */
class NotRead extends Error {}

/**
 * Why an image cannot be decoded, in words that are the same each time: libvips's own are those of all images that its threads
 * fail on at the same moment, mixed. They are the error's cause.
 */
function decoderReason(error: unknown, format: ImageFormat): string {
  return error instanceof NotRead
    ? error.message
    : `its ${format.toUpperCase()} data is damaged, or of a kind that is not read`;
}
