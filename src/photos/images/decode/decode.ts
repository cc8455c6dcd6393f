/** Image file → 8-bit RGB, as Pillow's `convert("RGB")` gives it. */
import { TapirError, reasonOf } from '../../../base/errors.js';
import { machineFailure } from '../../../base/machine-failure.js';
import { CutOff, readBmpHeader } from '../formats/bmp-header.js';
import { decodeBmp } from '../formats/bmp.js';
import { emptyImage, tooLargeImage, truncatedImage, unreadableImage } from '../file/image-errors.js';
import { labelOf, readImageFile, withImagePath, type ImageFile } from '../file/image-file.js';
import { cutOutFrame, placeFrame, readGifFrame } from '../formats/gif.js';
import { FORMATS, type SharpFormat } from '../formats/format-table.js';
import { readWebpHeader } from '../formats/headers.js';
import { imageFormat, type ImageFormat } from '../formats/image-format.js';
import { describeForeign } from '../formats/unread-formats.js';
import { TooManyParts } from '../pixels/part-count.js';
import { cutOutFirstImage, hasTiffAlpha, readTiffColour, type TiffColour } from '../formats/tiff.js';
import { isPamCutOff, readPam } from '../formats/pam.js';
import { readJpegFrame } from '../jpeg/jpeg-segments.js';
import { decodeJpeg, type JpegOptions } from '../jpeg/jpeg.js';
import type { Size } from '../pixels/geometry.js';
import type { RgbImage } from '../pixels/rgb-image.js';
import { layOnWhite } from '../pixels/on-white.js';
import { toRgb } from './colour.js';
import { decodeHeic, TooManyPixels } from './decode-heic.js';
import type { DecodeOptions } from './decode-options.js';
import { openSharp, type Sharp, type SharpFactory } from './open-sharp.js';
import { chooseReduction, sourceSize, type Reduction } from './reduction.js';

/** Decoded pixels, and where they come from. */
export interface DecodedImage extends RgbImage {
  /** Size of the image in the file, turned upright if asked for; larger than that of the pixels if they were reduced. */
  readonly source: Size;
  /** By how much the decoder reduced each side; more than 1 only with `decode: 'fast'`. */
  readonly reduction: Reduction;
}

/** Number of components of a CMYK JPEG. */
export const CMYK = 4;

/**
 * Reads and decodes the first frame of an image, without applying colour profiles. Alpha is dropped (not blended) unless it is to lie on
 * white. Grey is repeated, and CMYK is converted by Pillow's formula. HEIC needs libheif-js and is always turned as the file says, as
 * pillow-heif does.
 *
 * @throws {@link TapirError} `IMAGE_*`, `IMAGE_TOO_LARGE` before pixels are allocated; `DEPENDENCY_MISSING`.
 */
export async function decodeImage(file: ImageFile, options: DecodeOptions): Promise<DecodedImage> {
  return decodeBytes(file, readImageFile(file), options);
}

/** Whether it is a JPEG to decode at full size: every JPEG, except those that `decode: 'fast'` reduces. */
export function isWholeJpeg(bytes: Uint8Array, options: DecodeOptions): boolean {
  return imageFormat(bytes) === 'jpeg' && !planReduction(bytes, 'jpeg', options);
}

/** Which JPEGs this package decodes itself. */
export function jpegOptions({ orientation, limitPixels }: DecodeOptions): JpegOptions {
  return { limitPixels, isUpright: orientation === 'exif' };
}

/** {@link decodeImage} of a file whose bytes are already read. */
export async function decodeBytes(
  file: ImageFile,
  bytes: Uint8Array,
  options: DecodeOptions,
): Promise<DecodedImage> {
  const label = labelOf(file);
  const { limitPixels } = options;
  if (bytes.byteLength === 0) throw emptyImage(label);
  const format = imageFormat(bytes);
  if (!format) throw unreadableImage(label, describeForeign(bytes));
  let isCutOff = false;
  let size: Size | undefined;
  try {
    const { readSize, isCutOff: checkEnd } = FORMATS[format];
    size = readSize(bytes);
    if (size && size.height * size.width > limitPixels) throw tooLargeImage(label, limitPixels);
    if (format === 'bmp') return whole(decodeOwn(bytes, options));
    if (format === 'pam') return whole(decodePam(bytes, options));
    const plain = isWholeJpeg(bytes, options) ? decodeJpeg(bytes, jpegOptions(options)) : undefined;
    if (plain) return whole(plain);
    // Before the decoder, which would take seconds for a file of too many parts.
    isCutOff = checkEnd(bytes);
    if (format === 'heic') return whole(decodeHeic(bytes, limitPixels));
    // Loaded only now: other images do not need it.
    const sharp = await openSharp();
    const plan = planReduction(bytes, format, options);
    if (!plan) return whole(await decodeWhole(sharp, bytes, format, options));
    return await decodeReduced(sharp, file, bytes, format, options, plan);
  } catch (error) {
    throw failureOf(error, { label, format, limitPixels, sizeBytes: bytes.byteLength, isCutOff, size });
  }
}

/** What is known of a file that cannot be decoded. */
export interface FailedFile {
  readonly label: string;
  readonly format: ImageFormat;
  readonly limitPixels: number;
  readonly sizeBytes: number;
  readonly isCutOff: boolean;
  /** By its header. */
  readonly size?: Size | undefined;
}

/** The error of an image, by that of its decoder. */
export function failureOf(
  error: unknown,
  { label, format, limitPixels, sizeBytes, isCutOff, size }: FailedFile,
): TapirError {
  if (error instanceof TapirError) return error;
  const pixels = size ? ` of ${size.width}×${size.height} pixels` : '';
  const machine = machineFailure(error, { label, doing: `decoding ${label}${pixels}` });
  if (machine) return machine;
  if (error instanceof TooManyPixels || reasonOf(error).startsWith('Input image exceeds pixel limit'))
    return tooLargeImage(label, limitPixels, error);
  if (error instanceof TooManyParts) return unreadableImage(label, error.message, error);
  if (error instanceof CutOff) return truncatedImage(label, sizeBytes, error.message, error);
  if (isCutOff) return truncatedImage(label, sizeBytes, 'the end of its image is missing', error);
  const isOwn = format === 'bmp' || format === 'pam' || format === 'heic' || error instanceof NotSupported;
  return unreadableImage(label, isOwn ? reasonOf(error) : decoderReason(format), error);
}

function whole(image: RgbImage): DecodedImage {
  return { ...image, source: { height: image.height, width: image.width }, reduction: 1 };
}

/** BMP, which sharp cannot decode. */
function decodeOwn(bytes: Uint8Array, { alpha }: DecodeOptions): RgbImage {
  const header = readBmpHeader(bytes);
  const { height, width } = header;
  return { height, width, data: decodeBmp(bytes, header, alpha === 'white') };
}

/** Decoded pixels. Those of RGB are not copied. */
function decodePam(bytes: Uint8Array, { alpha }: DecodeOptions): RgbImage {
  if (isPamCutOff(bytes)) throw new CutOff('pixels at its end are missing');
  const { data, height, width, channels } = readPam(bytes);
  const isLaid = channels === 4 && alpha === 'white';
  const pixels = data as Uint8Array;
  return { height, width, data: isLaid ? layOnWhite(pixels, 4) : toRgb(pixels, channels, false) };
}

interface ReductionPlan {
  readonly size: Size;
  readonly reduction: Reduction;
  readonly isCmyk: boolean;
  /** An option of libvips's loader, in brackets after the path. sharp's own resize would choose the reduction itself. */
  readonly suffix: string;
}

/** Undefined if the image cannot or need not be reduced. */
function planReduction(
  bytes: Uint8Array,
  format: SharpFormat,
  { decode, resize, orientation }: DecodeOptions,
): ReductionPlan | undefined {
  if (decode !== 'fast' || (format !== 'jpeg' && format !== 'webp')) return undefined;
  const frame = format === 'jpeg' ? readJpegFrame(bytes) : undefined;
  const webp = format === 'webp' ? readWebpHeader(bytes) : undefined;
  // Transparent pixels would be blended into their neighbours.
  const size = webp?.isOpaque === true ? webp : frame;
  if (!size) return undefined;
  const reduction = chooseReduction(size, resize, orientation === 'exif');
  if (reduction === 1) return undefined;
  const suffix = format === 'webp' ? `[scale=${1 / reduction}]` : `[shrink=${reduction}]`;
  return { size, reduction, suffix, isCmyk: frame?.components === CMYK };
}

async function decodeReduced(
  sharp: SharpFactory,
  file: ImageFile,
  bytes: Uint8Array,
  format: SharpFormat,
  options: DecodeOptions,
  { size, reduction, isCmyk, suffix }: ReductionPlan,
): Promise<DecodedImage> {
  const image = await withImagePath(file, bytes, (path) =>
    decodeWith(sharp, path + suffix, format, isCmyk, options),
  );
  const source = sourceSize(size, image, reduction);
  // The JPEG decoder drops a remainder at the right and the bottom; the WebP decoder fits everything in.
  const span = { height: source.height / reduction, width: source.width / reduction };
  return { ...image, ...(format === 'jpeg' ? { span } : {}), source, reduction };
}

/** The image at full size. What decoding depends on is read from the header here, which saves a second call of the decoder. */
async function decodeWhole(
  sharp: SharpFactory,
  bytes: Uint8Array,
  format: SharpFormat,
  options: DecodeOptions,
): Promise<RgbImage> {
  if (format === 'gif') {
    const frame = readGifFrame(bytes);
    if (!frame) throw new NotSupported('its first frame is damaged or cut off');
    const isKept = options.alpha === 'white' && frame.transparent !== undefined;
    const pixels = await decodeWith(sharp, cutOutFrame(bytes, frame, isKept), format, false, options);
    return placeFrame(pixels, isKept ? { ...frame, outside: WHITE } : frame);
  }
  if (format === 'tiff') {
    const { isCmyk, alpha } = readTiffPixels(readTiffColour(bytes), hasTiffAlpha(bytes), options);
    return decodeWith(sharp, cutOutFirstImage(bytes), format, isCmyk, { ...options, alpha });
  }
  const isCmyk = format === 'jpeg' && readJpegFrame(bytes)?.components === CMYK;
  return decodeWith(sharp, bytes, format, isCmyk, options);
}

/** How the pixels of a TIFF are read. Throws `NotSupported`. */
export function readTiffPixels(
  colour: TiffColour,
  hasAlpha: boolean,
  { alpha }: Pick<DecodeOptions, 'alpha'>,
): { readonly isCmyk: boolean; readonly alpha: DecodeOptions['alpha'] } {
  // libvips would return these values as if they were RGB.
  if (colour === 'ycbcr')
    throw new NotSupported('its colours are YCbCr without JPEG compression, which is not supported');
  // Pillow takes a channel of no stated meaning for none.
  return { isCmyk: colour === 'cmyk', alpha: hasAlpha ? alpha : 'drop' };
}

const WHITE = [255, 255, 255] as const;

async function decodeWith(
  sharp: SharpFactory,
  input: Uint8Array | string,
  format: SharpFormat,
  isCmyk: boolean,
  options: PixelOptions,
): Promise<RgbImage> {
  const { orientation, limitPixels } = options;
  const opened = sharp(input, { ignoreIcc: true, limitInputPixels: limitPixels, failOn: 'warning' });
  // Pillow turns TIFFs upright when it loads them, but no other format.
  const image = orientation === 'exif' || format === 'tiff' ? opened.autoOrient() : opened;
  return readPixels(inColours(image, isCmyk, options), isCmyk, options);
}

/** What decides on the pixels of an image that sharp has opened. */
type PixelOptions = Pick<DecodeOptions, 'orientation' | 'alpha' | 'limitPixels'>;

/** An image in the colours that {@link readPixels} takes. */
export function inColours(image: Sharp, isCmyk: boolean, { alpha }: Pick<PixelOptions, 'alpha'>): Sharp {
  if (isCmyk) return image.pipelineColourspace('cmyk').toColourspace('cmyk');
  // libvips drops alpha as it decodes; toRgb would need a second pass over the pixels.
  return alpha === 'white' ? image : image.removeAlpha();
}

/** Decodes an image that is {@link inColours}. */
export async function readPixels(
  pipeline: Sharp,
  isCmyk: boolean,
  { alpha }: Pick<PixelOptions, 'alpha'>,
): Promise<RgbImage> {
  const isKept = alpha === 'white' && !isCmyk;
  const { data, info } = await pipeline.raw().toBuffer({ resolveWithObject: true });
  const { height, width, channels } = info;
  const isTransparent = isKept && (channels === 2 || channels === 4);
  return { height, width, data: isTransparent ? layOnWhite(data, channels) : toRgb(data, channels, isCmyk) };
}

/** This package refuses the image; the message says why. */
class NotSupported extends Error {}

/**
 * Why an image cannot be decoded, in the same words each time. libvips's messages mix those of all images that fail at the same
 * moment in any thread; they are kept as the error's cause.
 */
function decoderReason(format: ImageFormat): string {
  return `its ${format.toUpperCase()} data is damaged, or of a kind that is not supported`;
}
