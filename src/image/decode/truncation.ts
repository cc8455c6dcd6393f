/**
 * Whether the file of an image that could not be decoded ends too early, by the lengths and marks that its format has. Only to
 * tell what is wrong: what decodes is never asked. BMP is not here: its decoder, which is this package's own, knows.
 */
import type { ImageFormat } from './format.js';
import { paletteBytes } from './gif.js';

const CHECKS: Readonly<Record<ImageFormat, (bytes: Uint8Array) => boolean>> = {
  jpeg: isJpegCut,
  png: isPngCut,
  gif: isGifCut,
  webp: isWebpCut,
  tiff: isTiffCut,
  avif: isAvifCut,
  bmp: () => false,
};

/** Whether a file ends before its image does; false where it is damaged in another way. */
export function isTruncated(bytes: Uint8Array, format: ImageFormat): boolean {
  return CHECKS[format](bytes);
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const END_OF_IMAGE = 0xd9;

/** No end mark (EOI) before the end. Lengths that lead beyond it are damage where the file itself ends with the mark. */
function isJpegCut(bytes: Uint8Array): boolean {
  if (bytes.at(-2) === 0xff && bytes.at(-1) === END_OF_IMAGE) return false;
  let at = 2;
  while (at < bytes.length) {
    // Over entropy-coded data, and over what does not belong there.
    at = bytes.indexOf(0xff, at);
    if (at < 0) return true;
    const marker = bytes[at + 1] ?? 0xff;
    if (marker === END_OF_IMAGE) return false;
    if (marker === 0xff) at += 1;
    else if (isBare(marker)) at += 2;
    else if (at + 4 > bytes.length) return true;
    else {
      const sizeBytes = bytes[at + 2]! * 256 + bytes[at + 3]!;
      // It counts itself.
      if (sizeBytes < 2) return false;
      at += 2 + sizeBytes;
    }
  }
  return true;
}

/** Bytes behind 0xff that begin no segment: a stuffed zero, TEM, restarts, SOI. */
function isBare(marker: number): boolean {
  return marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd8);
}

const IEND = 0x4945_4e44;
/** The last chunk: no bytes, and its checksum. */
const PNG_END = Buffer.from([0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82]);

/** A chunk beyond the end, or no last one (IEND). */
function isPngCut(bytes: Uint8Array): boolean {
  if (PNG_END.equals(bytes.subarray(-PNG_END.length))) return false;
  const view = viewOf(bytes);
  let at = 8;
  while (at + 12 <= bytes.length) {
    const type = view.getUint32(at + 4);
    // The last chunk; or four bytes that are no letters.
    if (type === IEND || (type & 0xc0c0_c0c0) >>> 0 !== 0x4040_4040) return false;
    at += 12 + view.getUint32(at);
  }
  return true;
}

const GIF_EXTENSION = 0x21;
const GIF_IMAGE = 0x2c;

/** A block beyond the end, or no trailer. */
function isGifCut(bytes: Uint8Array): boolean {
  let at = 13 + paletteBytes(bytes[10]);
  while (at < bytes.length) {
    if (bytes[at] === GIF_EXTENSION) at += 2;
    else if (bytes[at] === GIF_IMAGE) at += 11 + paletteBytes(bytes[at + 9]);
    // The trailer; or a block of no known kind.
    else return false;
    while (at < bytes.length && bytes[at] !== 0) at += 1 + bytes[at]!;
    at += 1;
  }
  return true;
}

/** The length at the front, or that of a chunk, leads beyond the end. */
function isWebpCut(bytes: Uint8Array): boolean {
  const view = viewOf(bytes);
  if (8 + view.getUint32(4, true) > bytes.length) return true;
  let at = 12;
  while (at + 8 <= bytes.length) {
    const sizeBytes = view.getUint32(at + 4, true);
    if (at + 8 + sizeBytes > bytes.length) return true;
    at += 8 + sizeBytes + (sizeBytes % 2);
  }
  return false;
}

/** Bytes of a value, by TIFF's number of its type. */
const TIFF_TYPE_BYTES = [0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8];
const TIFF_SHORT = 3;
const TIFF_LONG = 4;
/** Strips' or tiles' places in the file, and their lengths. */
const TIFF_OFFSETS: ReadonlySet<number> = new Set([273, 324]);
const TIFF_BYTE_COUNTS: ReadonlySet<number> = new Set([279, 325]);

/** Numbers of a directory's entry: where they begin, all of them inside the file. */
interface TiffValues {
  readonly type: number;
  readonly from: number;
  readonly count: number;
}

const NO_VALUES: TiffValues = { type: TIFF_LONG, from: 0, count: 0 };

/** The first directory, one of its values, or the pixels lie beyond the end. */
function isTiffCut(bytes: Uint8Array): boolean {
  if (bytes.length < 8) return true;
  const view = viewOf(bytes);
  const isLittle = bytes[0] === 0x49;
  const directory = view.getUint32(4, isLittle);
  if (directory + 2 > bytes.length) return true;
  const end = directory + 2 + view.getUint16(directory, isLittle) * 12;
  if (end > bytes.length) return true;
  let offsets = NO_VALUES;
  let byteCounts = NO_VALUES;
  for (let at = directory + 2; at < end; at += 12) {
    const tag = view.getUint16(at, isLittle);
    const type = view.getUint16(at + 2, isLittle);
    const count = view.getUint32(at + 4, isLittle);
    const valueBytes = (TIFF_TYPE_BYTES[type] ?? 0) * count;
    // Values of up to 4 bytes stand in the entry itself.
    const from = valueBytes <= 4 ? at + 8 : view.getUint32(at + 8, isLittle);
    if (from + valueBytes > bytes.length) return true;
    if (type !== TIFF_SHORT && type !== TIFF_LONG) continue;
    if (TIFF_OFFSETS.has(tag)) offsets = { type, from, count };
    if (TIFF_BYTE_COUNTS.has(tag)) byteCounts = { type, from, count };
  }
  const valueAt = ({ type, from, count }: TiffValues, i: number): number => {
    if (i >= count) return 0;
    return type === TIFF_SHORT
      ? view.getUint16(from + i * 2, isLittle)
      : view.getUint32(from + i * 4, isLittle);
  };
  for (let i = 0; i < offsets.count; i++)
    if (valueAt(offsets, i) + valueAt(byteCounts, i) > bytes.length) return true;
  return false;
}

const MDAT = 0x6d64_6174;

/** A box beyond the end, or none for the pixels. */
function isAvifCut(bytes: Uint8Array): boolean {
  const view = viewOf(bytes);
  let hasData = false;
  let at = 0;
  while (at + 8 <= bytes.length) {
    hasData ||= view.getUint32(at + 4) === MDAT;
    const sizeBytes = view.getUint32(at);
    // To the end of the file; or a form of lengths for files of gigabytes, and what is none.
    if (sizeBytes < 8) return false;
    at += sizeBytes;
  }
  return at !== bytes.length || !hasData;
}
