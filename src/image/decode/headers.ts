/** What is asked of the headers of JPEG, WebP and TIFF files, so that the decoder need not open them twice. */
import type { Size } from '../pixels/geometry.js';

/** What the frame header of a JPEG says. */
export interface JpegFrame extends Size {
  /** Number of colour components; four mean CMYK. */
  readonly components: number;
}

/** Reads the frame header of a JPEG; undefined if there is none. */
export function readJpegFrame(bytes: Uint8Array): JpegFrame | undefined {
  let at = 2;
  while (at + 9 < bytes.byteLength) {
    if (bytes[at] !== 0xff) return undefined;
    const marker = bytes[at + 1]!;
    if (marker === 0xff) {
      at += 1; // Fill bytes may precede a marker.
      continue;
    }
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) {
      const height = bytes[at + 5]! * 256 + bytes[at + 6]!;
      const width = bytes[at + 7]! * 256 + bytes[at + 8]!;
      return { height, width, components: bytes[at + 9]! };
    }
    const isBare = marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    at += isBare ? 2 : 2 + bytes[at + 2]! * 256 + bytes[at + 3]!;
  }
  return undefined;
}

const WEBP_ANIMATION_OR_ALPHA = 0x12;

/** The size of a WebP that is one opaque picture; undefined for others: what is transparent would be blended into its neighbours. */
export function readOpaqueWebp(bytes: Uint8Array): Size | undefined {
  if (bytes.byteLength < 30) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const chunk = String.fromCharCode(...bytes.subarray(12, 16));
  if (chunk === 'VP8 ') {
    // Two bits above each side advise a player how to scale.
    return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
  }
  if (chunk === 'VP8L') {
    const bits = view.getUint32(21, true);
    const hasAlpha = ((bits >>> 28) & 1) === 1;
    return hasAlpha ? undefined : { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
  }
  if (chunk !== 'VP8X' || bytes[20]! & WEBP_ANIMATION_OR_ALPHA) return undefined;
  const side = (at: number): number => view.getUint16(at, true) + bytes[at + 2]! * 65_536 + 1;
  return { width: side(24), height: side(27) };
}

/** How the colours of a TIFF are stored, as far as the decoder has to be told. */
export type TiffColour = 'cmyk' | 'ycbcr' | 'other';

const COMPRESSION = 259;
const PHOTOMETRIC_INTERPRETATION = 262;
const TYPE_SHORT = 3;
const SEPARATED = 5;
const YCBCR = 6;
const OLD_JPEG = 6;
const JPEG = 7;

/** Tells how the first image of a TIFF is stored; `ycbcr` only where no JPEG decoder turns it into RGB. */
export function readTiffColour(bytes: Uint8Array): TiffColour {
  const compression = readTiffTag(bytes, COMPRESSION);
  const photometric = readTiffTag(bytes, PHOTOMETRIC_INTERPRETATION);
  if (photometric === SEPARATED) return 'cmyk';
  return photometric === YCBCR && compression !== JPEG && compression !== OLD_JPEG ? 'ycbcr' : 'other';
}

/** The number in the first directory's entry of a tag; undefined if it is not there. */
function readTiffTag(bytes: Uint8Array, tag: number): number | undefined {
  if (bytes.byteLength < 8) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isLittle = bytes[0] === 0x49;
  const directory = view.getUint32(4, isLittle);
  if (directory + 2 > bytes.byteLength) return undefined;
  const end = directory + 2 + view.getUint16(directory, isLittle) * 12;
  for (let at = directory + 2; at < end && at + 12 <= bytes.byteLength; at += 12) {
    if (view.getUint16(at, isLittle) !== tag) continue;
    // Values of up to 4 bytes stand in the entry itself, from its first byte on.
    const isShort = view.getUint16(at + 2, isLittle) === TYPE_SHORT;
    return isShort ? view.getUint16(at + 8, isLittle) : view.getUint32(at + 8, isLittle);
  }
  return undefined;
}
