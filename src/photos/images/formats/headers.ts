/** What this package reads itself of PNG, WebP, AVIF and HEIC, which other packages decode. */
import type { Size } from '../pixels/geometry.js';
import { textOf, viewOf } from '../pixels/data-view.js';
import { PartCount, resultOf } from '../pixels/part-count.js';

// PNG chunks.
const IHDR = 0x4948_4452;
const IEND = 0x4945_4e44;
const IDAT = 0x4944_4154;
const FDAT = 0x6664_4154;
/** The last chunk: no data, and its checksum. */
const PNG_END = Buffer.from([0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82]);

/** The size in the header chunk; undefined if it does not come first. */
export function readPngSize(bytes: Uint8Array): Size | undefined {
  if (bytes.length < 24) return undefined;
  const view = viewOf(bytes);
  return view.getUint32(12) === IHDR ? { width: view.getUint32(16), height: view.getUint32(20) } : undefined;
}

/** A chunk of a PNG or a WebP, and where its data lies. */
interface ImageChunk {
  readonly type: string;
  readonly start: number;
  readonly end: number;
}

/** Yields the chunks; returns whether the file ends before the last one. Throws `TooManyParts`, without chunks of pixels. */
export function* pngChunks(bytes: Uint8Array): Generator<ImageChunk, boolean> {
  const view = viewOf(bytes);
  const parts = new PartCount();
  let at = 8;
  while (at + 12 <= bytes.length) {
    const type = view.getUint32(at + 4);
    const hasLetters = (type & 0xc0c0_c0c0) >>> 0 === 0x4040_4040;
    if (type === IEND || !hasLetters) return false;
    if (type !== IDAT && type !== FDAT) parts.add();
    const [start, end] = [at + 8, at + 8 + view.getUint32(at)];
    yield { type: textOf(bytes.subarray(at + 4, start), 4), start, end };
    at = end + 4;
  }
  return true;
}

/** Whether a chunk reaches beyond the end, or the last one (IEND) is missing. Throws `TooManyParts`. */
export function isPngCutOff(bytes: Uint8Array): boolean {
  return resultOf(pngChunks(bytes)) && !PNG_END.equals(bytes.subarray(-PNG_END.length));
}

// The boxes of AVIF and HEIC (ISO/IEC 14496-12, 23008-12).
const MDAT = 0x6d64_6174;
/** The head of an `ispe` property (image spatial extents): box of 20 bytes, name, version 0, no flags. */
const ISPE = Buffer.from([0, 0, 0, 20, 0x69, 0x73, 0x70, 0x65, 0, 0, 0, 0]);

/** What stands before the pixels. Properties can follow them, too, but no encoder does that; libheif holds every image against the limit anyway. */
function headOf(bytes: Uint8Array): Buffer {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const mdat = file.indexOf('mdat');
  return file.subarray(0, mdat < 0 ? undefined : mdat);
}

/** The largest size of the images in the file: the whole one, its tiles, its thumbnail. Throws `TooManyParts`. */
export function readAvifSize(bytes: Uint8Array): Size | undefined {
  const head = headOf(bytes);
  const parts = new PartCount();
  let largest: Size | undefined;
  for (let at = head.indexOf(ISPE); at >= 0 && at + 20 <= head.length; at = head.indexOf(ISPE, at + 20)) {
    parts.add();
    const size = { width: head.readUInt32BE(at + 12), height: head.readUInt32BE(at + 16) };
    if (!largest || size.width * size.height > largest.width * largest.height) largest = size;
  }
  return largest;
}

/** Whether a box reaches beyond the end, or the one with the pixels is missing. Throws `TooManyParts`. */
export function isAvifCutOff(bytes: Uint8Array): boolean {
  const view = viewOf(bytes);
  const parts = new PartCount();
  let hasData = false;
  let at = 0;
  while (at + 8 <= bytes.length) {
    hasData ||= view.getUint32(at + 4) === MDAT;
    parts.add();
    const stated = view.getUint32(at);
    // 1 stands for a length of 64 bits.
    const sizeBytes = stated === 1 && at + 16 <= bytes.length ? Number(view.getBigUint64(at + 8)) : stated;
    // 0 is a box up to the end; others are damage.
    if (sizeBytes < 8) return false;
    at += sizeBytes;
  }
  return at !== bytes.length || !hasData;
}

/** What the first chunk of a WebP says. */
interface WebpHeader extends Size {
  /** Whether it is a single image without transparency. */
  readonly isOpaque: boolean;
  readonly hasAlpha: boolean;
}

const [ANIMATION, ALPHA] = [0x02, 0x10];

/** Reads the first chunk; undefined if it does not begin an image. */
export function readWebpHeader(bytes: Uint8Array): WebpHeader | undefined {
  if (bytes.byteLength < 30) return undefined;
  const view = viewOf(bytes);
  const chunk = String.fromCharCode(...bytes.subarray(12, 16));
  if (chunk === 'VP8 ' && bytes[23] === 0x9d && bytes[24] === 0x01 && bytes[25] === 0x2a) {
    // The two highest bits of each side only advise a player how to scale.
    const side = (at: number): number => view.getUint16(at, true) & 0x3fff;
    return { width: side(26), height: side(28), isOpaque: true, hasAlpha: false };
  }
  if (chunk === 'VP8L' && bytes[20] === 0x2f) {
    const bits = view.getUint32(21, true);
    const hasAlpha = ((bits >>> 28) & 1) === 1;
    return {
      width: (bits & 0x3fff) + 1,
      height: ((bits >>> 14) & 0x3fff) + 1,
      isOpaque: !hasAlpha,
      hasAlpha,
    };
  }
  if (chunk !== 'VP8X') return undefined;
  const side = (at: number): number => view.getUint16(at, true) + bytes[at + 2]! * 65_536 + 1;
  const has = (flag: number): boolean => (bytes[20]! & flag) !== 0;
  const hasAlpha = has(ALPHA);
  return { width: side(24), height: side(27), isOpaque: !has(ANIMATION) && !hasAlpha, hasAlpha };
}

/** Yields the chunks; returns whether one reaches beyond the end. Throws `TooManyParts`. */
export function* webpChunks(bytes: Uint8Array): Generator<ImageChunk, boolean> {
  const view = viewOf(bytes);
  const parts = new PartCount();
  let at = 12;
  while (at + 8 <= bytes.length) {
    const [start, end] = [at + 8, at + 8 + view.getUint32(at + 4, true)];
    if (end > bytes.length) return true;
    parts.add();
    yield { type: textOf(bytes.subarray(at, at + 4), 4), start, end };
    at = end + ((end - start) % 2);
  }
  return false;
}

/** Whether the length at the front, or that of a chunk, reaches beyond the end. Throws `TooManyParts`. */
export function isWebpCutOff(bytes: Uint8Array): boolean {
  return resultOf(webpChunks(bytes)) || 8 + viewOf(bytes).getUint32(4, true) > bytes.length;
}

/** The type of an auxiliary image that is the alpha channel of another one. */
const ALPHA_TYPES = ['urn:mpeg:mpegB:cicp:systems:auxiliary:alpha', 'urn:mpeg:hevc:2015:auxid:1'];

/** Whether an AVIF or HEIC has an alpha channel. */
export function hasAlphaInAvif(bytes: Uint8Array): boolean {
  const head = headOf(bytes);
  return ALPHA_TYPES.some((type) => head.includes(type));
}
