/** Image file → 8-bit RGB, as Pillow's `convert("RGB")` gives it. The only import of sharp. */
import type { Sharp, SharpOptions } from 'sharp';
import { TapirError, reasonOf } from '../errors.js';
import { readBmpHeader } from './bmp-header.js';
import { decodeBmp } from './bmp.js';
import { toRgb } from './colour.js';
import { FORMATS_SHOWN, imageFormat, type ImageFormat } from './format.js';
import type { Size } from './geometry.js';
import { isTiffSeparated, readJpegFrame, type JpegFrame } from './headers.js';
import { tooLargeImage, unreadableImage } from './image-errors.js';
import { labelOf, readImageFile, withImagePath, type ImageSource } from './image-file.js';
import type { TransformOptions } from './presets.js';
import { chooseReduction, reducedSize, type Reduction } from './reduction.js';
import type { RgbImage } from './resample.js';

/** How an image is read; `resize` says how much of it `decode: 'fast'` must leave. */
export type DecodeOptions = Pick<TransformOptions, 'orientation' | 'limitPixels' | 'decode' | 'resize'>;

/** Decoded pixels, and what they were decoded from. */
export interface DecodedImage extends RgbImage {
  /** Size of the file's image, after its orientation was applied; larger than the pixels' if they were reduced. */
  readonly source: Size;
  /** How far the decoder reduced each side; more than 1 only with `decode: 'fast'`. */
  readonly reduction: Reduction;
}

type SharpFactory = (input: Uint8Array | string, options: SharpOptions) => Sharp;
let loaded: Promise<SharpFactory> | undefined;

async function loadSharp(): Promise<SharpFactory> {
  try {
    const { default: sharp } = await import('sharp');
    // One thread per image and nothing kept: the images of a batch are decoded beside each other instead.
    sharp.concurrency(1);
    sharp.cache(false);
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

/** Versions of the decoder, for records. */
export async function decoderVersions(): Promise<{ readonly sharp: string; readonly libvips: string }> {
  const { default: sharp } = await import('sharp');
  return { sharp: sharp.versions.sharp ?? '', libvips: sharp.versions.vips };
}

/**
 * Reads and decodes an image: the first frame, no colour profile applied, alpha dropped (not blended), grey repeated, CMYK
 * converted by Pillow's formula.
 *
 * @throws {@link TapirError} `IMAGE_NOT_FOUND`, `IMAGE_UNREADABLE`, `IMAGE_TOO_LARGE` (before pixels are allocated),
 * `DEPENDENCY_MISSING`.
 */
export async function decodeImage(source: ImageSource, options: DecodeOptions): Promise<DecodedImage> {
  const label = labelOf(source);
  const bytes = await readImageFile(source);
  const format = imageFormat(bytes);
  if (!format) throw unreadableImage(label, whyUnknown(bytes));
  if (format === 'bmp') return decodeOwn(bytes, label, options.limitPixels);
  loaded ??= loadSharp();
  const sharp = await loaded;
  const frame = format === 'jpeg' ? readJpegFrame(bytes) : undefined;
  const reduction = frame && options.decode === 'fast' ? reductionOf(frame, options) : 1;
  try {
    if (!frame || reduction === 1) {
      const image = await decodeWith(sharp, bytes, format, frame, options);
      return { ...image, source: { height: image.height, width: image.width }, reduction: 1 };
    }
    if (frame.height * frame.width > options.limitPixels) throw tooLargeImage(label, options.limitPixels);
    // Only the file form of the loader takes a reduction: sharp's own resize leaves the choice of it to itself, and goes on
    // to resize. libvips takes options of its loaders in brackets behind a path.
    const decode = (path: string): Promise<RgbImage> =>
      decodeWith(sharp, `${path}[shrink=${reduction}]`, format, frame, options);
    const image = await withImagePath(source, bytes, decode);
    return { ...image, source: sourceSize(frame, image, reduction), reduction };
  } catch (error) {
    if (error instanceof TapirError) throw error;
    if (/pixel limit/i.test(reasonOf(error))) throw tooLargeImage(label, options.limitPixels, error);
    throw unreadableImage(label, decoderReason(error), error);
  }
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
    throw unreadableImage(label, reasonOf(error), error);
  }
}

async function decodeWith(
  sharp: SharpFactory,
  input: Uint8Array | string,
  format: ImageFormat,
  frame: JpegFrame | undefined,
  { orientation, limitPixels }: DecodeOptions,
): Promise<RgbImage> {
  const opened = sharp(input, { ignoreIcc: true, limitInputPixels: limitPixels, failOn: 'warning' });
  // Pillow turns a TIFF upright while it loads it, and no other format.
  const image = orientation === 'exif' || format === 'tiff' ? opened.autoOrient() : opened;
  const isCmyk =
    frame?.components === 4 || (format === 'tiff' && input instanceof Uint8Array && isTiffSeparated(input));
  const pipeline = isCmyk ? image.pipelineColourspace('cmyk').toColourspace('cmyk') : image;
  const { data, info } = await pipeline.raw().toBuffer({ resolveWithObject: true });
  return { height: info.height, width: info.width, data: toRgb(data, info.channels, isCmyk) };
}

function reductionOf(frame: JpegFrame, { resize, orientation }: DecodeOptions): Reduction {
  return chooseReduction(frame, resize, orientation === 'exif');
}

/** The whole image's size, on its side where the pixels are; the file is opened twice, so it may not be the same any more. */
function sourceSize(frame: JpegFrame, image: Size, reduction: Reduction): Size {
  const { height, width } = reducedSize(frame, reduction);
  if (image.height === height && image.width === width) return { height: frame.height, width: frame.width };
  if (image.height === width && image.width === height) return { height: frame.width, width: frame.height };
  throw new Error('its size changed while it was read');
}

/** libvips says the same several times over, one message a line. */
function decoderReason(error: unknown): string {
  const lines = new Set(
    (error instanceof Error ? error.message : String(error)).split('\n').map((line) => line.trim()),
  );
  const text = [...lines].filter(Boolean).join('; ');
  return text.includes('failOn') ? 'it is damaged or cut off (the decoder warns)' : text;
}

function whyUnknown(bytes: Uint8Array): string {
  if (bytes.byteLength === 0) return 'it is empty';
  return `its format is not ${FORMATS_SHOWN}`;
}
