/** Image → pixels → tensor, with torchvision's numbers. */
import { checkInteger, checkOneOf, invalidOption, withDefaults, type Options } from '../base/checks.js';
import { jpegOptions, type DecodedImage } from './decode/decode.js';
import { centerCrop, resizedSize, type Size } from './pixels/geometry.js';
import { Normalization } from './normalize.js';
import type { ImageSource } from './pixels/image-file.js';
import { loadPixels } from './load-pixels.js';
import { DECODE_MODES, TRANSFORM_PRESETS, type TransformOptions, type TransformPreset } from './presets.js';
import { resample, type RgbImage } from './resample/resample.js';
import { resampleJpeg, type ResampleTarget, type ResampledJpeg } from './resample-jpeg.js';

/** Pixels as a model is fed them, and as a tensor. */
export interface LoadedImage extends RgbImage {
  /** Width of the file's image before the transform. */
  readonly sourceWidth: number;
  /** Height of the file's image before the transform. */
  readonly sourceHeight: number;
  /** How far the decoder reduced each side: 1, or 2, 4 or 8 with `decode: 'fast'`. */
  readonly reduction: 1 | 2 | 4 | 8;
  /** The normalised tensor, `[1, 3, height, width]` float32, bit for bit torchvision's. */
  toTensor(): { dtype: 'float32'; dims: [1, 3, number, number]; data: Float32Array };
}

const CHANNELS = 3;

let valuesOf: (transform: Transform) => Float32Array;

/** A checked preprocessing. Made by {@link createTransform}. */
export class Transform {
  /** Every setting, defaults filled in. */
  readonly options: TransformOptions;
  /** The preset it is, if it was made by name. */
  readonly preset: TransformPreset | null;
  /** Height and width of every result; null if they depend on the image. */
  readonly outputSize: Size | null;
  readonly #normalization: Normalization;

  static {
    valuesOf = (transform) => transform.#normalization.table;
  }

  /** Use {@link createTransform}. */
  constructor(options: TransformOptions, preset: TransformPreset | null) {
    this.options = options;
    this.preset = preset;
    const fixed = typeof options.resize === 'object' ? options.resize : null;
    this.outputSize = options.crop === null ? fixed : toSize(options.crop);
    this.#normalization = new Normalization(options.mean, options.std);
  }

  /**
   * Resizes and crops; returns 8-bit RGB, in `into` where it is given: the bytes of the result, shared memory or not. An image
   * that was reduced becomes the size that the whole one would.
   */
  apply(image: RgbImage | DecodedImage, into?: Uint8Array): RgbImage {
    const { size, region, interpolation } = this.#targetOf('source' in image ? image.source : image);
    return resample(image, size, region, interpolation, into);
  }

  /**
   * {@link apply} of a JPEG while it is decoded.
   *
   * @returns Undefined where that does not go; `into` holds anything then.
   */
  applyToJpeg(bytes: Uint8Array, into?: Uint8Array): ResampledJpeg | undefined {
    return resampleJpeg(bytes, jpegOptions(this.options), (image) => this.#targetOf(image), into);
  }

  #targetOf(image: Size): ResampleTarget {
    const { resize, crop, interpolation } = this.options;
    const size = resizedSize(image, resize);
    return { size, region: centerCrop(size, crop === null ? null : toSize(crop)), interpolation };
  }

  /** Normalises pixels into planes (CHW) of an array, from an offset on. */
  normalizeInto(image: RgbImage, into: Float32Array, offset: number): void {
    this.#normalization.writePlanes(image, into, offset);
  }
}

export { valuesOf };

function toSize(size: number | Size): Size {
  return typeof size === 'number' ? { height: size, width: size } : size;
}

const MAX_SIDE = 65_536;

/**
 * Creates a preprocessing: decode, resize, crop, normalise, with exactly the pixels and floats that torchvision gives.
 *
 * @param given - A preset by name, or options, each falling back to `ImageNet1K_V1`'s.
 * @returns The transform, for {@link loadImage} and the embed functions.
 * @throws {@link TapirError} `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { createTransform, loadImage } from 'onnx-tapir';
 *
 * const clip = createTransform({ resize: 224, interpolation: 'bicubic', mean: [0.481, 0.458, 0.408], std: [0.269, 0.261, 0.276] });
 * const image = await loadImage('photo.jpg', clip);
 * console.log(image.toTensor().dims); // [1, 3, 224, 224]
 * ```
 */
export function createTransform(
  given: TransformPreset | Options<TransformOptions> = 'ImageNet1K_V1',
): Transform {
  if (typeof given === 'string') {
    const names = Object.keys(TRANSFORM_PRESETS) as TransformPreset[];
    const preset = names.find((name) => name.toLowerCase() === given.toLowerCase());
    if (!preset) throw invalidOption('transform', names.map((name) => `"${name}"`).join(', '), given);
    return new Transform(TRANSFORM_PRESETS[preset], preset);
  }
  const options = withDefaults(TRANSFORM_PRESETS.ImageNet1K_V1, given, 'transform');
  checkSize('resize', options.resize);
  checkSize('crop', options.crop);
  checkOneOf('interpolation', options.interpolation, ['bilinear', 'bicubic']);
  checkOneOf('orientation', options.orientation, ['ignore', 'exif']);
  checkOneOf('decode', options.decode, DECODE_MODES);
  checkInteger('limitPixels', options.limitPixels, 1, 2 ** 31 - 1);
  checkChannels('mean', options.mean, () => true);
  checkChannels('std', options.std, (value) => value !== 0);
  return new Transform(options, null);
}

function checkSize(option: string, value: unknown): void {
  if (value === null) return;
  if (typeof value === 'object' && value !== undefined && 'height' in value && 'width' in value) {
    checkInteger(`${option}.height`, value.height, 1, MAX_SIDE);
    checkInteger(`${option}.width`, value.width, 1, MAX_SIDE);
    return;
  }
  if (typeof value !== 'number')
    throw invalidOption(option, 'a number of pixels, { height, width } or null', value);
  checkInteger(option, value, 1, MAX_SIDE);
}

function checkChannels(option: string, value: unknown, allows: (channel: number) => boolean): void {
  const isFit = (item: unknown): boolean => typeof item === 'number' && Number.isFinite(item) && allows(item);
  if (Array.isArray(value) && value.length === CHANNELS && value.every(isFit)) return;
  throw invalidOption(option, `three finite numbers${option === 'std' ? ' other than 0' : ''}`, value);
}

/**
 * Reads an image and preprocesses it.
 *
 * @remarks
 * Reads the file and decodes plain JPEGs in the calling thread, 2 ms for 500×375 pixels: handing that to Node's thread pool costs half as much
 * again. For folders there is {@link embedImages}, which has threads for it.
 *
 * @param source - A path, a `file:` URL, or the bytes of a JPEG, PNG, WebP, GIF, TIFF, AVIF or BMP file.
 * @param transform - From {@link createTransform}, or a preset's name.
 * @returns The pixels: `height × width × 3` bytes, RGB, row by row; `toTensor()` normalises them.
 * @throws {@link TapirError} `IMAGE_NOT_FOUND`, `IMAGE_DENIED`, `IMAGE_EMPTY`, `IMAGE_TRUNCATED`, `IMAGE_UNREADABLE`, `IMAGE_TOO_LARGE`,
 * `DEPENDENCY_MISSING`.
 *
 * @example
 * ```ts
 * import { loadImage } from 'onnx-tapir';
 *
 * const image = await loadImage('photo.jpg', 'ImageNet1K_V1');
 * console.log(image.height, image.width, image.data.length); // 224 224 150528
 * ```
 */
export async function loadImage(
  source: ImageSource,
  transform: Transform | TransformPreset = 'ImageNet1K_V1',
): Promise<LoadedImage> {
  if (
    !(source instanceof Uint8Array) &&
    !(source instanceof URL) &&
    (typeof source !== 'string' || source === '')
  ) {
    throw invalidOption('image', 'a path, a file: URL or bytes', source);
  }
  const chosen = transform instanceof Transform ? transform : createTransform(transform);
  const { image, from, reduction } = await loadPixels(source, chosen);
  return {
    ...image,
    sourceWidth: from.width,
    sourceHeight: from.height,
    reduction,
    toTensor() {
      const data = new Float32Array(CHANNELS * image.height * image.width);
      chosen.normalizeInto(image, data, 0);
      return { dtype: 'float32', dims: [1, CHANNELS, image.height, image.width], data };
    },
  };
}
