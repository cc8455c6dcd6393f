/** Image formats, by their first bytes. */
import { isBmp } from './bmp-header.js';
import { isPam } from './pam.js';
import { textOf, viewOf } from '../pixels/data-view.js';

/** Supported formats; HEIC needs an optional package, and PAM is how decoded pixels come. Others (SVG, PDF, camera raw) are refused, even those that libvips can render. */
export type ImageFormat = 'jpeg' | 'png' | 'webp' | 'gif' | 'tiff' | 'avif' | 'heic' | 'bmp' | 'pam';

/** The formats as messages name them. */
export const FORMATS_SHOWN = 'JPEG, PNG, WebP, GIF, TIFF, AVIF, HEIC or BMP';

/** File extensions of images that are always read, in lower case. */
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

/** File extensions of HEIF, in lower case. The content is usually HEVC. */
export const HEIF_EXTENSIONS: ReadonlySet<string> = new Set(['.heic', '.heif', '.hif']);

/** In either byte order; BigTIFFs have a plus. */
const TIFF_STARTS = ['II*\0', 'MM\0*', 'II+\0', 'MM\0+'];

/** The format of an image's bytes; undefined if it is not supported. */
export function imageFormat(bytes: Uint8Array): ImageFormat | undefined {
  const text = textOf(bytes, 32);
  if (text.startsWith('\u00ff\u00d8\u00ff')) return 'jpeg';
  if (text.startsWith('\u0089PNG\r\n\u001a\n')) return 'png';
  if (text.startsWith('GIF87a') || text.startsWith('GIF89a')) return 'gif';
  if (text.startsWith('RIFF') && text.startsWith('WEBP', 8)) return 'webp';
  if (TIFF_STARTS.some((start) => text.startsWith(start))) return 'tiff';
  if (text.startsWith('ftyp', 4)) return heifFormat(bytes);
  if (isPam(bytes)) return 'pam';
  return isBmp(bytes) ? 'bmp' : undefined;
}

/** Brands of still images and sequences in HEVC. */
const HEVC_BRANDS: ReadonlySet<string> = new Set(['heic', 'heix', 'heim', 'heis', 'hevc', 'hevx']);
/** The list of brands is shorter in every file that an encoder writes. */
const MAX_BRAND_BYTES = 256;

/** The coding of a HEIF file, by its major brand; by the others if that one only says that it is HEIF. */
function heifFormat(bytes: Uint8Array): ImageFormat | undefined {
  if (bytes.byteLength < 12) return undefined;
  const end = Math.min(viewOf(bytes).getUint32(0), MAX_BRAND_BYTES);
  const text = textOf(bytes, Math.max(12, end));
  const major = text.slice(8, 12);
  if (major.startsWith('avi')) return 'avif';
  if (HEVC_BRANDS.has(major)) return 'heic';
  if (major !== 'mif1' && major !== 'msf1') return undefined;
  const others: readonly string[] = text.slice(16).match(/.{4}/gs) ?? [];
  return others.includes('avif') ? 'avif' : 'heic';
}
