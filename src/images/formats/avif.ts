/** The boxes of AVIF and HEIC (ISO/IEC 14496-12, 23008-12). */
import { viewOf } from '../pixels/data-view.js';
import type { Size } from '../pixels/geometry.js';
import { PartCount } from '../pixels/part-count.js';

const MDAT = 0x6d64_6174;
/** The head of an `ispe` property (image spatial extents): box of 20 bytes, name, version 0, no flags. */
const ISPE = Buffer.from([0, 0, 0, 20, 0x69, 0x73, 0x70, 0x65, 0, 0, 0, 0]);

/** The largest size of the images in the file: the whole one, its tiles, its thumbnail. Throws `TooManyParts`. */
export function readAvifSize(bytes: Uint8Array): Size | undefined {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const mdat = file.indexOf('mdat');
  // Properties can follow the pixels, too, but no encoder does that; libheif holds every image against the limit anyway.
  const head = file.subarray(0, mdat < 0 ? undefined : mdat);
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
