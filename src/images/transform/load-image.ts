/** Image file → the pixels that a model is fed. */
import { decodeBytes, isWholeJpeg } from '../decode/decode.js';
import type { Reduction } from '../decode/reduction.js';
import { readImageFile, type ImageFile, type StampTaker } from '../file/image-file.js';
import { openImageSource, type ImageSource } from '../file/image-source.js';
import type { Size } from '../pixels/geometry.js';
import type { RgbImage } from '../pixels/rgb-image.js';
import { cropRandomly, flipRows } from './random-crop.js';
import { copyPlanes, spreadPixels } from '../../tensor/spread-pixels.js';
import {
  createTransform,
  transformJpeg,
  valuesOf,
  type FloatImage,
  type Transform,
  type TransformLike,
} from './transform.js';

/** Transformed pixels and where they come from. */
export interface LoadedPixels {
  readonly image: RgbImage | FloatImage;
  /** Size of the image in the file. */
  readonly from: Size;
  readonly reduction: Reduction;
  /** Milliseconds of reading and decoding. */
  readonly decodeMs: number;
  /** Milliseconds of resizing and cropping. */
  readonly resampleMs: number;
}

/**
 * Reads, decodes and transforms an image; plain JPEGs are resized while they are decoded.
 *
 * @param into - Receives the pixels, or the planes of a transform to floats; a new array by default.
 * @param taker - Receives the file's stamp, even if decoding then fails.
 * @param augmentSeed - Chooses a random crop, which is transformed in place of the image, and whether the result is mirrored.
 * @throws {@link TapirError} as `decodeImage` does.
 */
export async function loadPixels(
  file: ImageFile,
  given: Transform,
  into?: Uint8Array,
  taker?: StampTaker,
  augmentSeed?: number,
): Promise<LoadedPixels> {
  const started = performance.now();
  // What is cropped at random is resized to the transform's size, and not cropped again.
  const transform =
    augmentSeed === undefined ? given : given.with({ resize: given.outputSize, crop: null, decode: 'exact' });
  const bytes = readImageFile(file, taker);
  const isDirect = augmentSeed === undefined && isWholeJpeg(bytes, transform.options);
  const direct = isDirect ? transformJpeg(transform, bytes, into) : undefined;
  if (direct) {
    const { source: from, resampleMs } = direct;
    const decodeMs = performance.now() - started - resampleMs;
    const { height, width, data } = direct;
    return { image: { height, width, data }, from, reduction: 1, decodeMs, resampleMs };
  }
  const decoded = await decodeBytes(file, bytes, transform.options);
  const decodedAt = performance.now();
  const crop = augmentSeed === undefined ? undefined : cropRandomly(decoded, augmentSeed);
  const taken = crop ? crop.image : decoded;
  const image = transform.isFloat
    ? transform.applyFloat(taken, into && new Float32Array(into.buffer, into.byteOffset, into.length / 4))
    : transform.apply(taken, into);
  if (crop?.isFlipped === true) mirror(image);
  const { source: from, reduction } = decoded;
  return { image, from, reduction, decodeMs: decodedAt - started, resampleMs: performance.now() - decodedAt };
}

function mirror(image: RgbImage | FloatImage): void {
  if ('planes' in image) flipRows(image.planes, image.width, 1);
  else flipRows(image.data, image.width, 3);
}

/** Pixels that a model can be fed, and the same as a tensor. */
export interface LoadedImage extends RgbImage {
  /** Width of the image in the file, before the transform. */
  readonly sourceWidth: number;
  /** Height of the image in the file, before the transform. */
  readonly sourceHeight: number;
  /** The order of the channels in `data`. Grey is repeated three times. */
  readonly channelOrder: 'rgb' | 'bgr' | 'grey';
  /** By how much the decoder reduced each side: 1, or 2, 4 or 8 with `decode: 'fast'`. */
  readonly reduction: Reduction;
  /**
   * The normalised tensor, `[1, channels, height, width]` float32, or `[1, height, width, channels]` with `layout: 'nhwc'`; bit for
   * bit that of the transform's library.
   */
  toTensor(): { dtype: 'float32'; dims: [number, number, number, number]; data: Float32Array };
}

/**
 * Reads an image and transforms it.
 *
 * @remarks
 * Files are read and plain JPEGs decoded in the calling thread: 2 ms for 500×375 pixels, and half as much again through Node's
 * thread pool. For folders use {@link embedFolder} or {@link embedImages}, which decode in threads.
 *
 * @param source - A path, a `file:` URL, the bytes of a file, or a Blob, Response or web stream of them; JPEG, PNG, WebP, GIF,
 * TIFF, AVIF or BMP, at most 1 GiB; HEIC with the optional package libheif-js.
 * @param transform - A preset's name, options, or a transform from {@link createTransform}.
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
  const { image, from, reduction } = await loadPixels(await openImageSource(source), chosen);
  const { height, width } = image;
  return {
    height,
    width,
    data: 'planes' in image ? image.bytes() : image.data,
    channelOrder: chosen.options.channelOrder,
    sourceWidth: from.width,
    sourceHeight: from.height,
    reduction,
    toTensor() {
      const { channels } = chosen;
      const isLast = chosen.options.layout === 'nhwc';
      const data = new Float32Array(channels * height * width);
      const axes = { channels, isLast };
      if ('planes' in image) copyPlanes(image.planes, data, axes);
      else spreadPixels(image.data, valuesOf(chosen), data, axes);
      return {
        dtype: 'float32',
        dims: isLast ? [1, height, width, channels] : [1, channels, height, width],
        data,
      };
    },
  };
}
