/** What is asked of the headers of JPEG and TIFF files, so that the decoder need not open them twice. */
import type { Size } from './geometry.js';

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

const PHOTOMETRIC_INTERPRETATION = 262;
const SEPARATED = 5;
const TYPE_SHORT = 3;

/** Whether the first image of a TIFF file is stored as ink (CMYK). */
export function isTiffSeparated(bytes: Uint8Array): boolean {
  if (bytes.byteLength < 8) return false;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isLittle = bytes[0] === 0x49;
  const directory = view.getUint32(4, isLittle);
  if (directory + 2 > bytes.byteLength) return false;
  const entries = view.getUint16(directory, isLittle);
  for (let at = directory + 2, end = at + entries * 12; at < end && at + 12 <= bytes.byteLength; at += 12) {
    if (view.getUint16(at, isLittle) !== PHOTOMETRIC_INTERPRETATION) continue;
    // Values of up to 4 bytes stand in the entry itself, from its first byte on.
    const isShort = view.getUint16(at + 2, isLittle) === TYPE_SHORT;
    return (isShort ? view.getUint16(at + 8, isLittle) : view.getUint32(at + 8, isLittle)) === SEPARATED;
  }
  return false;
}
