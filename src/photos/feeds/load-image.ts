/** A photo of any source, as a model is fed. */
import { openImageSource, type ImageSource } from '../images/file/image-source.js';
import { imageOf, loadPixels, type LoadedImage } from '../images/transform/load-pixels.js';
import { createTransform, type TransformLike } from './create-transform.js';

/**
 * Reads an image and transforms it.
 *
 * @remarks
 * Files are read and plain JPEGs decoded in the calling thread: 2 ms for 500×375 pixels, and half as much again through Node's
 * thread pool. For folders use {@link embedFolder} or {@link embedImages}, which decode in threads.
 *
 * @param source - A path, a `file:` URL, the bytes of a file, or a Blob, Response or web stream of them; JPEG, PNG, WebP, GIF,
 * TIFF, AVIF or BMP, at most 1 GiB; HEIC with the optional package libheif-js.
 * @param transform - As {@link createTransform} takes it.
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
 * const cat = await loadImage(await fetch('https://example.com/cat.jpg'), 'ImageNet1K_V2');
 * ```
 */
export async function loadImage(
  source: ImageSource,
  transform: TransformLike = 'ImageNet1K_V1',
): Promise<LoadedImage> {
  const chosen = createTransform(transform);
  return imageOf(await loadPixels(await openImageSource(source), chosen), chosen);
}
