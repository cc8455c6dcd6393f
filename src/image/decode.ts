/** Image file → 8-bit RGB, as Pillow's `convert("RGB")` gives it. The only import of sharp. */
import { readFile, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Sharp, SharpOptions } from 'sharp';
import { TapirError, reasonOf } from '../errors.js';
import { imageFormat, jpegComponents, type ImageFormat } from './format.js';
import type { RgbImage } from './resample.js';

/** How an image is read. */
export interface DecodeOptions {
  /** `ignore` leaves pixels as stored, as torchvision does; `exif` turns them upright by the EXIF orientation. */
  readonly orientation: 'ignore' | 'exif';
  /** More pixels than this are refused, from the header alone. */
  readonly limitPixels: number;
}

/** An image to read: a path, a `file:` URL, or the bytes of the file. */
export type ImageSource = string | URL | Uint8Array;

/** Longer files are refused before reading: no photo that decodes within the pixel limit is this long. */
const MAX_FILE_BYTES = 1024 ** 3;

type SharpFactory = (input: Uint8Array, options: SharpOptions) => Sharp;
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
export async function decodeImage(source: ImageSource, options: DecodeOptions): Promise<RgbImage> {
  const label = labelOf(source);
  const bytes = source instanceof Uint8Array ? source : await readImageFile(source, label);
  const format = imageFormat(bytes);
  if (!format) throw unreadable(label, whyUnknown(bytes));
  loaded ??= loadSharp();
  const sharp = await loaded;
  const { limitPixels, orientation } = options;
  try {
    const open = (): Sharp =>
      sharp(bytes, { ignoreIcc: true, limitInputPixels: limitPixels, failOn: 'warning' });
    // Pillow turns a TIFF upright while it loads it, and no other format.
    const image = orientation === 'exif' || format === 'tiff' ? open().autoOrient() : open();
    const isCmyk = await hasCmyk(format, bytes, open);
    const pipeline = isCmyk ? image.pipelineColourspace('cmyk').toColourspace('cmyk') : image;
    const { data, info } = await pipeline.raw().toBuffer({ resolveWithObject: true });
    return { height: info.height, width: info.width, data: toRgb(data, info.channels, isCmyk) };
  } catch (error) {
    if (!/pixel limit/i.test(reasonOf(error))) throw unreadable(label, decoderReason(error), error);
    const reason = `it has more than ${limitPixels} pixels`;
    throw new TapirError(
      'IMAGE_TOO_LARGE',
      `${label} is refused: ${reason}; raise limitPixels if it is to be trusted`,
      {
        details: { source: label, reason, limitPixels },
        cause: error,
      },
    );
  }
}

function labelOf(source: ImageSource): string {
  if (source instanceof Uint8Array) return `an image of ${source.byteLength} bytes`;
  return source instanceof URL ? fileURLToPath(source) : source;
}

async function readImageFile(source: string | URL, label: string): Promise<Uint8Array> {
  try {
    const stats = await stat(source);
    if (!stats.isFile()) throw new Error('it is no regular file');
    if (stats.size > MAX_FILE_BYTES)
      throw new Error(`the file has ${stats.size} bytes, more than ${MAX_FILE_BYTES}`);
    return await readFile(source);
  } catch (error) {
    throw new TapirError('IMAGE_NOT_FOUND', `cannot read the image ${label}: ${reasonOf(error)}`, {
      details: { source: label, reason: reasonOf(error) },
      cause: error,
    });
  }
}

function unreadable(label: string, reason: string, cause?: unknown): TapirError<'IMAGE_UNREADABLE'> {
  return new TapirError('IMAGE_UNREADABLE', `${label} is no image that can be read: ${reason}`, {
    details: { source: label, reason },
    ...(cause === undefined ? {} : { cause }),
  });
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
  if (bytes[0] === 0x42 && bytes[1] === 0x4d) return 'BMP is not supported; convert it to PNG';
  return 'its format is not JPEG, PNG, WebP, GIF, TIFF or AVIF';
}

/** Whether pixels are stored as CMYK; asked of the header where that is cheap, of libvips only for TIFF. */
async function hasCmyk(format: ImageFormat, bytes: Uint8Array, open: () => Sharp): Promise<boolean> {
  if (format === 'jpeg') return jpegComponents(bytes) === 4;
  return format === 'tiff' && (await open().metadata()).space === 'cmyk';
}

function toRgb(data: Uint8Array, channels: number, isCmyk: boolean): Uint8Array {
  if (channels === 3) return data;
  const count = data.length / channels;
  const rgb = new Uint8Array(count * 3);
  if (isCmyk) return cmykToRgb(data, channels, rgb);
  // One channel or two are grey, without or with alpha; four are RGBA.
  const [green, blue] = channels < 3 ? [0, 0] : [1, 2];
  for (let i = 0, from = 0, to = 0; i < count; i++, from += channels) {
    rgb[to++] = data[from]!;
    rgb[to++] = data[from + green]!;
    rgb[to++] = data[from + blue]!;
  }
  return rgb;
}

/** Pillow's conversion (src/libImaging/Convert.c): ink takes from what black leaves, `x·y/255` rounded in integers. */
function cmykToRgb(data: Uint8Array, channels: number, rgb: Uint8Array): Uint8Array {
  for (let from = 0, to = 0; to < rgb.length; from += channels) {
    const left = 255 - data[from + 3]!;
    for (let ink = 0; ink < 3; ink++) {
      const product = data[from + ink]! * left + 128;
      rgb[to++] = Math.max(0, left - (((product >> 8) + product) >> 8));
    }
  }
  return rgb;
}
