/** PNG chunks. */
import { viewOf } from '../pixels/data-view.js';
import type { Size } from '../pixels/geometry.js';
import { PartCount } from '../pixels/part-count.js';

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

/** Whether a chunk reaches beyond the end, or the last one (IEND) is missing. Throws `TooManyParts`, without chunks of pixels. */
export function isPngCutOff(bytes: Uint8Array): boolean {
  const view = viewOf(bytes);
  const parts = new PartCount();
  let at = 8;
  while (at + 12 <= bytes.length) {
    const type = view.getUint32(at + 4);
    const hasLetters = (type & 0xc0c0_c0c0) >>> 0 === 0x4040_4040;
    if (type === IEND || !hasLetters) return false;
    if (type !== IDAT && type !== FDAT) parts.add();
    at += 12 + view.getUint32(at);
  }
  return !PNG_END.equals(bytes.subarray(-PNG_END.length));
}
