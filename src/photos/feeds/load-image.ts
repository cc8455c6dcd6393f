/** A photo of any source, as a model is fed. */
import type { Options } from '../../base/checks.js';
import type { RequestHeaders } from '../../base/http/request-headers.js';
import { isHttpUrl } from '../../base/http/http.js';
import { readOptions, signal, type Fields } from '../../base/options.js';
import { openImageSource, type ImageSource } from '../images/formats/image-source.js';
import type { ImageFile } from '../images/file/image-file.js';
import { imageOf, loadPixels, type LoadedImage } from '../images/transform/load-pixels.js';
import { checkNotTransformed } from './items/item-of-image.js';
import { createTransform, type TransformLike } from './create-transform.js';
import { itemOfUrl } from './items/entries.js';
import { fileOf } from './items/source-item.js';
import { FETCHED, SOURCE_FIELDS } from './items/source-options.js';

/** Options of {@link loadImage}. */
export interface LoadImageOptions {
  /**
   * Headers of the request for a URL, such as `{ authorization: 'Bearer …' }`: the URL's own server gets them, and no other one that it redirects to.
   * @default undefined
   */
  readonly headers: RequestHeaders | undefined;
  /**
   * Stops the request when it fires. The call then rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

const FIELDS: Fields<LoadImageOptions> = { headers: SOURCE_FIELDS.headers, signal };

/**
 * Reads an image and transforms it.
 *
 * @remarks
 * Files are read and plain JPEGs decoded in the calling thread: 2 ms for 500×375 pixels, and half as much again through Node's
 * thread pool. For folders use {@link embedFolder} or {@link embedImages}, which decode in threads.
 *
 * @param source - A path, a URL (`file:`, `https:`, `http:`, `data:`), the bytes of a file, or a Blob, Response or stream of them. The formats
 * are JPEG, PNG, WebP, GIF, TIFF, AVIF and BMP, and HEIC with the optional package libheif-js; at most 1 GiB. Or decoded pixels:
 * {@link DecodedPixels}.
 * @param transform - As {@link createTransform} takes it.
 * @param given - See {@link LoadImageOptions}.
 * @returns The pixels: `height × width × 3` bytes, RGB (or in the order of `channelOrder`), row by row; `toTensor()` normalises them.
 * @throws {@link TapirError} `IMAGE_NOT_FOUND`, `IMAGE_DENIED`, `IMAGE_EMPTY`, `IMAGE_TRUNCATED`, `IMAGE_UNREADABLE`, `IMAGE_TOO_LARGE`,
 * `DEPENDENCY_MISSING`, `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { loadImage } from 'onnx-tapir';
 *
 * const image = await loadImage('photo.jpg', { resize: 384, crop: 384 });
 * console.log(image.height, image.width, image.data.length); // 384 384 442368
 * const cat = await loadImage('https://example.com/cat.jpg', 'ImageNet1K_V2');
 * ```
 */
export async function loadImage(
  source: ImageSource,
  transform: TransformLike = 'ImageNet1K_V1',
  given: Options<LoadImageOptions> = {},
): Promise<LoadedImage> {
  const chosen = createTransform(transform);
  const options = readOptions(FIELDS, given, 'loadImage');
  return imageOf(await loadPixels(await openPhoto(source, options), chosen), chosen);
}

/** The file of a photo that a call names; a URL is fetched. */
export function openPhoto(source: ImageSource, options: Partial<LoadImageOptions> = {}): Promise<ImageFile> {
  checkNotTransformed(source, 'image');
  const text = source instanceof URL ? source.href : source;
  const isRemote = typeof text === 'string' && isHttpUrl(text);
  return isRemote ? fileOf(itemOfUrl(text, { ...FETCHED, ...options })) : openImageSource(source);
}
