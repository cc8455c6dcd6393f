/** WebP chunks. */
import { viewOf } from '../pixels/data-view.js';
import type { Size } from '../pixels/geometry.js';
import { PartCount } from '../pixels/part-count.js';

/** What the first chunk of a WebP says. */
export interface WebpHeader extends Size {
  /** Whether it is a single image without transparency. */
  readonly isOpaque: boolean;
}

const ANIMATION_OR_ALPHA = 0x12;

/** Reads the first chunk; undefined if it does not begin an image. */
export function readWebpHeader(bytes: Uint8Array): WebpHeader | undefined {
  if (bytes.byteLength < 30) return undefined;
  const view = viewOf(bytes);
  const chunk = String.fromCharCode(...bytes.subarray(12, 16));
  if (chunk === 'VP8 ' && bytes[23] === 0x9d && bytes[24] === 0x01 && bytes[25] === 0x2a) {
    // The two highest bits of each side only advise a player how to scale.
    const side = (at: number): number => view.getUint16(at, true) & 0x3fff;
    return { width: side(26), height: side(28), isOpaque: true };
  }
  if (chunk === 'VP8L' && bytes[20] === 0x2f) {
    const bits = view.getUint32(21, true);
    const isOpaque = ((bits >>> 28) & 1) === 0;
    return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1, isOpaque };
  }
  if (chunk !== 'VP8X') return undefined;
  const side = (at: number): number => view.getUint16(at, true) + bytes[at + 2]! * 65_536 + 1;
  return { width: side(24), height: side(27), isOpaque: (bytes[20]! & ANIMATION_OR_ALPHA) === 0 };
}

/** Whether the length at the front, or that of a chunk, reaches beyond the end. Throws `TooManyParts`. */
export function isWebpCutOff(bytes: Uint8Array): boolean {
  const view = viewOf(bytes);
  const parts = new PartCount();
  let at = 12;
  while (at + 8 <= bytes.length) {
    const sizeBytes = view.getUint32(at + 4, true);
    if (at + 8 + sizeBytes > bytes.length) return true;
    parts.add();
    at += 8 + sizeBytes + (sizeBytes % 2);
  }
  return 8 + view.getUint32(4, true) > bytes.length;
}
