/** The orientation in EXIF data. */

const ORIENTATION = 0x0112;
const UPRIGHT = 1;

/**
 * Whether a JPEG's APP1 segment leaves the image upright: it is not EXIF, or its first directory has no orientation or orientation 1.
 *
 * @returns False for invalid structures, too, since another reader may still find an orientation in them.
 */
export function isUpright(body: Uint8Array): boolean {
  const text = Buffer.from(body.buffer, body.byteOffset, Math.min(6, body.length)).toString('latin1');
  if (!text.startsWith('Exif')) return true;
  if (text !== 'Exif\0\0' || body.length < 14) return false;
  const view = new DataView(body.buffer, body.byteOffset + 6, body.byteLength - 6);
  const order = view.getUint16(0);
  const isLittle = order === 0x4949;
  if ((!isLittle && order !== 0x4d4d) || view.getUint16(2, isLittle) !== 42) return false;
  const directory = view.getUint32(4, isLittle);
  if (directory + 2 > view.byteLength) return false;
  const count = view.getUint16(directory, isLittle);
  if (directory + 2 + count * 12 > view.byteLength) return false;
  for (let at = directory + 2; at < directory + 2 + count * 12; at += 12) {
    if (view.getUint16(at, isLittle) !== ORIENTATION) continue;
    const isShort = view.getUint16(at + 2, isLittle) === 3 && view.getUint32(at + 4, isLittle) === 1;
    if (!isShort || view.getUint16(at + 8, isLittle) !== UPRIGHT) return false;
  }
  return true;
}
