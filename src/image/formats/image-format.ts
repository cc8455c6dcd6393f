/** Image formats, by their first bytes. */
import { isBmp } from '../bmp/bmp-header.js';

/** Supported formats. Others (SVG, PDF, camera raw) are refused, even those that libvips can render. */
export type ImageFormat = 'jpeg' | 'png' | 'webp' | 'gif' | 'tiff' | 'avif' | 'bmp';

/** The formats as messages name them. */
export const FORMATS_SHOWN = 'JPEG, PNG, WebP, GIF, TIFF, AVIF or BMP';

/** File extensions of images, in lower case. */
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
  '.dib',
]);

/** The format of an image's bytes; undefined if it is not supported. */
export function imageFormat(bytes: Uint8Array): ImageFormat | undefined {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(32, bytes.byteLength)).toString('latin1');
  if (text.startsWith('\u00ff\u00d8\u00ff')) return 'jpeg';
  if (text.startsWith('\u0089PNG\r\n\u001a\n')) return 'png';
  if (text.startsWith('GIF87a') || text.startsWith('GIF89a')) return 'gif';
  if (text.startsWith('RIFF') && text.startsWith('WEBP', 8)) return 'webp';
  if (text.startsWith('II*\0') || text.startsWith('MM\0*')) return 'tiff';
  if (text.startsWith('ftypavi', 4)) return 'avif';
  return isBmp(bytes) ? 'bmp' : undefined;
}
