/** The segments of any JPEG (ITU-T T.81, annex B), progressive and damaged ones included. */
import { PartCount, resultOf } from '../pixels/part-count.js';
import { textOf } from '../pixels/data-view.js';
import type { Size } from '../pixels/geometry.js';

/** What the frame header says. */
export interface JpegFrame extends Size {
  /** Number of colour components; four are CMYK. */
  readonly components: number;
}

const END_OF_IMAGE = 0xd9;
const START_OF_SCAN = 0xda;
/** Entropy-coded data is searched byte by byte for so long: a call of `indexOf` takes longer. */
const NEAR_BYTES = 16;

/** A marker with a segment, and where it begins. */
interface JpegSegment {
  readonly marker: number;
  readonly at: number;
}

/** Yields the segments; returns whether the file ends before its end mark. Throws `TooManyParts`, counting segments and fill bytes. */
function* jpegSegments(bytes: Uint8Array): Generator<JpegSegment, boolean> {
  const parts = new PartCount();
  let isInScan = false;
  let at = 2;
  while (at < bytes.length) {
    // Skips entropy-coded data, and bytes that do not belong there.
    const near = Math.min(at + NEAR_BYTES, bytes.length);
    while (at < near && bytes[at] !== 0xff) at++;
    if (bytes[at] !== 0xff) at = bytes.indexOf(0xff, at);
    if (at < 0) return true;
    const marker = bytes[at + 1] ?? 0xff;
    if (marker === END_OF_IMAGE) return false;
    // Entropy-coded data is full of bare markers.
    if (!isInScan || !isBare(marker)) parts.add();
    // Fill bytes may precede a marker.
    if (marker === 0xff) at += 1;
    else if (isBare(marker)) at += 2;
    else if (at + 4 > bytes.length) return true;
    else {
      // The length includes its two bytes.
      const sizeBytes = bytes[at + 2]! * 256 + bytes[at + 3]!;
      if (sizeBytes < 2) return false;
      yield { marker, at };
      isInScan ||= marker === START_OF_SCAN;
      at += 2 + sizeBytes;
    }
  }
  return true;
}

/** Bytes after 0xff that begin no segment: a stuffed zero, TEM, restarts, SOI. */
function isBare(marker: number): boolean {
  return marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd8);
}

/** Reads the frame header; undefined if the file has no frame header. Throws `TooManyParts`. */
export function readJpegFrame(bytes: Uint8Array): JpegFrame | undefined {
  for (const { marker, at } of jpegSegments(bytes)) {
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (!isFrame) continue;
    if (at + 9 >= bytes.length) return undefined;
    const word = (offset: number): number => bytes[at + offset]! * 256 + bytes[at + offset + 1]!;
    return { height: word(5), width: word(7), components: bytes[at + 9]! };
  }
  return undefined;
}

const APP1 = 0xe1;
const EXIF = 'Exif\0\0';

/** The EXIF block, a TIFF without pixels; undefined if there is none before the pixels. Throws `TooManyParts`. */
export function readJpegExif(bytes: Uint8Array): Uint8Array | undefined {
  for (const { marker, at } of jpegSegments(bytes)) {
    if (marker === START_OF_SCAN) return undefined;
    const start = at + 4 + EXIF.length;
    if (marker === APP1 && textOf(bytes.subarray(at + 4, start), EXIF.length) === EXIF)
      return bytes.subarray(start, at + 2 + bytes[at + 2]! * 256 + bytes[at + 3]!);
  }
  return undefined;
}

/**
 * Whether the end mark (EOI) is missing. Lengths that lead beyond it are damage if the file itself ends with the mark. Throws
 * `TooManyParts`.
 */
export function isJpegCutOff(bytes: Uint8Array): boolean {
  return resultOf(jpegSegments(bytes)) && !(bytes.at(-2) === 0xff && bytes.at(-1) === END_OF_IMAGE);
}
