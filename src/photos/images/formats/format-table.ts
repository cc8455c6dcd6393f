/** What this package reads itself of each format: a row for each. */
import { isJpegCutOff, readJpegFrame } from '../jpeg/jpeg-segments.js';
import type { Size } from '../pixels/geometry.js';
import { readBmpHeader } from './bmp-header.js';
import { isGifCutOff, readGifFrame } from './gif.js';
import {
  hasAlphaInAvif,
  isAvifCutOff,
  isPngCutOff,
  isWebpCutOff,
  readAvifSize,
  readPngSize,
  readWebpHeader,
} from './headers.js';
import { imageFormat, type ImageFormat } from './image-format.js';
import { readJpegMarks, readPngMarks, readWebpMarks, type Marks } from './marks.js';
import { isPamCutOff, readPam } from './pam.js';
import { hasTiffAlpha, isTiffCutOff, readTiffSize } from './tiff.js';

/** Formats that sharp decodes. HEIC is decoded by libheif-js, BMP and PAM here. */
export type SharpFormat = Exclude<ImageFormat, 'bmp' | 'pam' | 'heic'>;

/** A format. */
interface FormatRow {
  /**
   * The size in the header, before any turn; undefined if this package cannot find it. Nothing is allocated by it. Throws `TooManyParts`;
   * for a BMP or a PAM, which nothing else reads, an Error that says what is wrong.
   */
  readonly readSize: (bytes: Uint8Array) => Size | undefined;
  /**
   * Whether the file ends before its image does, by the lengths and end marks of the format; false if it is damaged in another
   * way. Explains why the decoder failed. Throws `TooManyParts`: the decoder must not see such a file.
   */
  readonly isCutOff: (bytes: Uint8Array) => boolean;
  /** How the pixels are to be turned, and whether some are transparent. Throws as `readSize` does. */
  readonly readMarks: (bytes: Uint8Array) => Marks;
}

const NONE: Marks = { isTurned: false, isTransparent: false };
/** Of formats whose orientation Pillow applies by itself, or that have none. */
const upright =
  (isTransparent: (bytes: Uint8Array) => boolean) =>
  (bytes: Uint8Array): Marks => ({ ...NONE, isTransparent: isTransparent(bytes) });

export const FORMATS: Readonly<Record<ImageFormat, FormatRow>> = {
  jpeg: { readSize: readJpegFrame, isCutOff: isJpegCutOff, readMarks: readJpegMarks },
  png: { readSize: readPngSize, isCutOff: isPngCutOff, readMarks: readPngMarks },
  webp: { readSize: readWebpHeader, isCutOff: isWebpCutOff, readMarks: readWebpMarks },
  gif: {
    readSize: (bytes) => readGifFrame(bytes)?.canvas,
    isCutOff: isGifCutOff,
    readMarks: upright((bytes) => readGifFrame(bytes)?.transparent !== undefined),
  },
  tiff: { readSize: readTiffSize, isCutOff: isTiffCutOff, readMarks: upright(hasTiffAlpha) },
  bmp: {
    readSize: readBmpHeader,
    isCutOff: () => false,
    readMarks: upright((bytes) => readBmpHeader(bytes).alphaMask !== 0),
  },
  pam: {
    readSize: readPam,
    isCutOff: isPamCutOff,
    readMarks: upright((bytes) => readPam(bytes).channels === 4),
  },
  avif: { readSize: readAvifSize, isCutOff: isAvifCutOff, readMarks: upright(hasAlphaInAvif) },
  heic: { readSize: readAvifSize, isCutOff: isAvifCutOff, readMarks: upright(hasAlphaInAvif) },
};

/** The marks of an image that can be decoded. */
export function readMarks(bytes: Uint8Array): Marks {
  const format = imageFormat(bytes);
  try {
    return format === undefined ? NONE : FORMATS[format].readMarks(bytes);
  } catch {
    // Where the decoder is content, marks that cannot be found are none.
    return NONE;
  }
}
