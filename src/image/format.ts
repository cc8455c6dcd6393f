/** Image formats by their first bytes, as far as decoding treats them differently. */

/** Formats that are read; anything else (SVG, PDF, camera raw) is refused even where libvips could render it. */
export type ImageFormat = 'jpeg' | 'png' | 'webp' | 'gif' | 'tiff' | 'avif';

/** File extensions of images, in lower case. BMP is among them so that such files are listed, with an error, not skipped. */
export const IMAGE_EXTENSIONS: ReadonlySet<string> = new Set([
  '.jpg',
  '.jpeg',
  '.jpe',
  '.jfif',
  '.png',
  '.webp',
  '.gif',
  '.tif',
  '.tiff',
  '.avif',
  '.bmp',
]);

/** The format of image bytes, or undefined. */
export function imageFormat(bytes: Uint8Array): ImageFormat | undefined {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(32, bytes.byteLength)).toString('latin1');
  if (text.startsWith('\u00ff\u00d8\u00ff')) return 'jpeg';
  if (text.startsWith('\u0089PNG\r\n\u001a\n')) return 'png';
  if (text.startsWith('GIF87a') || text.startsWith('GIF89a')) return 'gif';
  if (text.startsWith('RIFF') && text.startsWith('WEBP', 8)) return 'webp';
  if (text.startsWith('II*\0') || text.startsWith('MM\0*')) return 'tiff';
  return text.startsWith('ftypavi', 4) ? 'avif' : undefined;
}

/** Number of colour components of a JPEG, from its frame header; 0 if there is none. Four means CMYK. */
export function jpegComponents(bytes: Uint8Array): number {
  let at = 2;
  while (at + 9 < bytes.byteLength) {
    if (bytes[at] !== 0xff) return 0;
    const marker = bytes[at + 1]!;
    if (marker === 0xff) {
      at += 1; // Fill bytes may precede a marker.
      continue;
    }
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) return bytes[at + 9]!;
    const isBare = marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    at += isBare ? 2 : 2 + bytes[at + 2]! * 256 + bytes[at + 3]!;
  }
  return 0;
}
