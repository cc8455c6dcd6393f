/** What a file says of its pixels beside them: how to turn them, and whether some are transparent. */
import { pngChunks, readWebpHeader, webpChunks } from './headers.js';
import { readJpegExif } from '../jpeg/jpeg-segments.js';
import { readTiffOrientation } from './tiff.js';

/** Facts of one photo. */
export interface Marks {
  /** Its EXIF orientation is not 1, and Pillow does not apply it by itself, as it does for TIFF and HEIC. */
  readonly isTurned: boolean;
  /** It has an alpha channel, or a transparent colour. */
  readonly isTransparent: boolean;
}

/** Marks of a JPEG, by its EXIF block. */
export function readJpegMarks(bytes: Uint8Array): Marks {
  return { isTurned: isTurned(readJpegExif(bytes)), isTransparent: false };
}

function isTurned(exif: Uint8Array | undefined): boolean {
  const orientation = exif && readTiffOrientation(exif);
  return orientation !== undefined && orientation > 1 && orientation <= 8;
}

/** The byte of a PNG that tells its kind of colours, and the bit in it for alpha. */
const [PNG_COLOURS, PNG_ALPHA] = [25, 4];

/** Marks of a PNG: of its chunks. */
export function readPngMarks(bytes: Uint8Array): Marks {
  const marks = { isTurned: false, isTransparent: ((bytes[PNG_COLOURS] ?? 0) & PNG_ALPHA) !== 0 };
  for (const { type, start, end } of pngChunks(bytes)) {
    if (type === 'tRNS') marks.isTransparent = true;
    if (type === 'eXIf') marks.isTurned = isTurned(bytes.subarray(start, end));
  }
  return marks;
}

/** Marks of a WebP: of its chunks. */
export function readWebpMarks(bytes: Uint8Array): Marks {
  const marks = { isTurned: false, isTransparent: readWebpHeader(bytes)?.hasAlpha === true };
  for (const { type, start, end } of webpChunks(bytes)) {
    if (type !== 'EXIF') continue;
    const exif = bytes.subarray(start, end);
    // Some writers keep the marker of a JPEG before it.
    marks.isTurned = isTurned(Buffer.from(exif.subarray(0, 6)).equals(EXIF_HEAD) ? exif.subarray(6) : exif);
  }
  return marks;
}

const EXIF_HEAD = Buffer.from('Exif\0\0');
