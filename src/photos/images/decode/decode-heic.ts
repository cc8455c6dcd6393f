/** HEIC (HEIF with HEVC) → 8-bit RGB, with libheif. */
import { copyRows, type RgbImage } from '../pixels/rgb-image.js';
import { dropLibheif, openLibheif, type Handle, type Libheif, type LibheifError } from './open-libheif.js';

/** A refused image. Any other error means that libheif has crashed. */
class Undecodable extends Error {}

export class TooManyPixels extends Undecodable {}

/** WebAssembly memory never shrinks, so this is the most that a thread keeps. A photo of 12 megapixels needs less. */
const MAX_KEPT_BYTES = 256 * 1024 ** 2;

/**
 * Decodes the primary image, turned and mirrored as the file says (`irot`, `imir`) and cropped (`clap`), as pillow-heif does. Alpha
 * is dropped, not blended; 10 and 12 bits become 8.
 *
 * @throws Error that says why; {@link TooManyPixels} before pixels are allocated.
 */
export function decodeHeic(bytes: Uint8Array, limitPixels: number): RgbImage {
  const libheif = openLibheif();
  try {
    return decodeWith(libheif, bytes, limitPixels);
  } catch (error) {
    if (!(error instanceof Undecodable)) dropLibheif();
    throw error;
  } finally {
    if (libheif.HEAPU8.byteLength > MAX_KEPT_BYTES) dropLibheif();
  }
}

function decodeWith(libheif: Libheif, bytes: Uint8Array, limitPixels: number): RgbImage {
  const context = libheif.heif_context_alloc();
  let primary: Handle | undefined;
  try {
    check(libheif, libheif.heif_context_read_from_memory(context, bytes));
    const found = libheif.heif_js_context_get_primary_image_handle(context);
    if ('message' in found) throw failure(found);
    primary = found;
    const width = libheif.heif_image_handle_get_width(primary);
    const height = libheif.heif_image_handle_get_height(primary);
    if (width * height > limitPixels) throw new TooManyPixels();
    const { heif_colorspace_RGB: rgb } = libheif.heif_colorspace;
    const { heif_chroma_interleaved_RGB: interleaved } = libheif.heif_chroma;
    const decoded = libheif.heif_js_decode_image2(primary, rgb, interleaved);
    if (decoded.code !== undefined) throw failure(decoded);
    try {
      const { width: columns, height: rows, stride, data } = decoded.channels[0]!;
      const pixels = new Uint8Array(rows * columns * 3);
      const pitch = columns * 3;
      copyRows({ data, offset: 0, pitch: stride }, { data: pixels, offset: 0, pitch }, rows, pitch);
      return { height: rows, width: columns, data: pixels };
    } finally {
      libheif.heif_image_release(decoded.image);
    }
  } finally {
    if (primary) libheif.heif_image_handle_release(primary);
    libheif.heif_context_free(context);
  }
}

function check({ heif_error_code: codes }: Libheif, result: LibheifError): void {
  if (result.code !== codes.heif_error_Ok) throw failure(result);
}

function failure({ message }: LibheifError): Error {
  return new Undecodable(`libheif cannot decode it: ${message.trim()}`);
}
