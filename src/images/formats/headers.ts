/** What this package reads itself of the formats that other packages decode. */
import { isJpegCutOff, readJpegFrame } from '../jpeg/jpeg-segments.js';
import type { Size } from '../pixels/geometry.js';
import { isAvifCutOff, readAvifSize } from './avif.js';
import { isGifCutOff, readGifFrame } from './gif.js';
import type { ImageFormat } from './image-format.js';
import { isPngCutOff, readPngSize } from './png.js';
import { isTiffCutOff, readTiffSize } from './tiff.js';
import { isWebpCutOff, readWebpHeader } from './webp.js';

/** Formats that other packages decode: HEIC libheif-js, the others sharp. */
export type ForeignFormat = Exclude<ImageFormat, 'bmp'>;

/** Formats that sharp decodes. */
export type SharpFormat = Exclude<ForeignFormat, 'heic'>;

interface HeaderReader {
  /** The size in the header, before any turn; undefined if this package cannot find it. Nothing is allocated by it. Throws `TooManyParts`. */
  readonly readSize: (bytes: Uint8Array) => Size | undefined;
  /**
   * Whether the file ends before its image does, by the lengths and end marks of the format; false if it is damaged in another
   * way. Explains why the decoder failed. Throws `TooManyParts`: the decoder must not see such a file.
   */
  readonly isCutOff: (bytes: Uint8Array) => boolean;
}

export const HEADERS: Readonly<Record<ForeignFormat, HeaderReader>> = {
  jpeg: { readSize: readJpegFrame, isCutOff: isJpegCutOff },
  png: { readSize: readPngSize, isCutOff: isPngCutOff },
  gif: { readSize: (bytes) => readGifFrame(bytes)?.canvas, isCutOff: isGifCutOff },
  webp: { readSize: readWebpHeader, isCutOff: isWebpCutOff },
  tiff: { readSize: readTiffSize, isCutOff: isTiffCutOff },
  avif: { readSize: readAvifSize, isCutOff: isAvifCutOff },
  heic: { readSize: readAvifSize, isCutOff: isAvifCutOff },
};
