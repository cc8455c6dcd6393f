/** Decoded image → resized and cropped pixels → normalised floats, with torchvision's numbers. */
import { checkInteger, checkOneOf, invalidOption, withDefaults, type Options } from '../base/checks.js';
import { DECODE_MODES } from './decode/decode-options.js';
import { jpegOptions } from './decode/decode.js';
import { tooLargeImage } from './file/image-errors.js';
import { Normalization } from './normalize.js';
import { centerCrop, resizedSize, type Size } from './pixels/geometry.js';
import type { RgbImage } from './pixels/rgb-image.js';
import { resampleJpeg, type ResampledJpeg, type ResampleTarget } from './resample-jpeg.js';
import { resample } from './resample/resample.js';
import { TRANSFORM_PRESETS, type TransformOptions, type TransformPreset } from './transform-options.js';

/** What functions take as a transform: one from {@link createTransform}, a preset's name, or options. */
export type TransformLike = Transform | TransformPreset | Options<TransformOptions>;

let valuesOf: (transform: Transform) => Float32Array;

/** A checked transform, which never changes. Create one with {@link createTransform}. */
export class Transform {
  /** Every option, with defaults filled in. Frozen, nested arrays and objects included. */
  readonly options: TransformOptions;
  /** Name of the preset that it was created from; null if it was created from options. */
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
    Object.freeze(this);
  }

  /**
   * Resizes and crops. An image that the decoder reduced gets the size that the full one would get.
   *
   * @param into - Receives the pixels; a new array by default. It needs exactly the size of the result and may lie in shared
   * memory.
   */
  apply(image: RgbImage & { readonly source?: Size }, into?: Uint8Array): RgbImage {
    const { size, region, interpolation } = targetOf(this.options, image.source ?? image);
    return resample(image, size, region, interpolation, into);
  }

  /** Writes an image's normalised planes (CHW) into an array, starting at an offset. */
  normalizeInto(image: RgbImage, into: Float32Array, offset: number): void {
    this.#normalization.writePlanes(image, into, offset);
  }
}

/** A transform's normalised value for each channel and byte, 3 × 256 floats; shared, so leave it unchanged. */
export { valuesOf };

/**
 * Decodes a JPEG and resizes and crops its rows as they come, with the pixels of {@link Transform.apply}.
 *
 * @returns Undefined if another decoder must read the file; `into` may then hold part of an image.
 */
export function transformJpeg(
  { options }: Transform,
  bytes: Uint8Array,
  into?: Uint8Array,
): ResampledJpeg | undefined {
  return resampleJpeg(bytes, jpegOptions(options), (image) => targetOf(options, image), into);
}

function targetOf(
  { resize, crop, interpolation, limitPixels }: TransformOptions,
  image: Size,
): ResampleTarget {
  const size = resizedSize(image, resize);
  const region = centerCrop(size, crop === null ? null : toSize(crop));
  // Without a crop, a file of 1 × 65000 pixels would become one of 256 × 16 million.
  const isBounded = crop !== null || typeof resize === 'object';
  const limit = Math.max(limitPixels, TRANSFORM_PRESETS.ImageNet1K_V1.limitPixels);
  if (!isBounded && region.height * region.width > limit) throw tooLargeImage('the resized image', limit);
  return { size, region, interpolation };
}

function toSize(size: number | Size): Size {
  return typeof size === 'number' ? Object.freeze({ height: size, width: size }) : size;
}

const MAX_SIDE = 65_536;

/**
 * Creates a transform: decode, resize, crop, normalise, with exactly the pixels and floats of torchvision.
 *
 * @param given - A preset's name, or options; options you leave out have the values of `ImageNet1K_V1`. A transform is returned
 * unchanged.
 * @returns The transform, for {@link loadImage} and the embed functions. It keeps a frozen copy of the options.
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
export function createTransform(given: TransformLike = 'ImageNet1K_V1'): Transform {
  if (given instanceof Transform) return given;
  if (typeof given !== 'string')
    return new Transform(
      checkOptions(withDefaults(TRANSFORM_PRESETS.ImageNet1K_V1, given, 'transform')),
      null,
    );
  const names = Object.keys(TRANSFORM_PRESETS) as TransformPreset[];
  const preset = names.find((name) => name.toLowerCase() === given.toLowerCase());
  if (!preset) throw invalidOption('transform', names.map((name) => `"${name}"`).join(', '), given);
  return new Transform(checkOptions(TRANSFORM_PRESETS[preset]), preset);
}

/** Checks options and returns a frozen deep copy: the caller may change its arrays and objects afterwards. */
function checkOptions(options: TransformOptions): TransformOptions {
  return Object.freeze({
    mean: checkChannels('mean', options.mean, () => true),
    std: checkChannels('std', options.std, (value) => value !== 0),
    orientation: checkOneOf('orientation', options.orientation, ['ignore', 'exif']),
    decode: checkOneOf('decode', options.decode, DECODE_MODES),
    limitPixels: checkInteger('limitPixels', options.limitPixels, 1, 2 ** 31 - 1),
    resize: checkSize('resize', options.resize),
    crop: checkSize('crop', options.crop),
    interpolation: checkOneOf('interpolation', options.interpolation, ['bilinear', 'bicubic']),
  });
}

function checkSize(option: string, value: unknown): number | Size | null {
  if (value === null) return null;
  if (typeof value === 'object' && value !== undefined && 'height' in value && 'width' in value) {
    const height = checkInteger(`${option}.height`, value.height, 1, MAX_SIDE);
    const width = checkInteger(`${option}.width`, value.width, 1, MAX_SIDE);
    return Object.freeze({ height, width });
  }
  if (typeof value !== 'number')
    throw invalidOption(option, 'a number of pixels, { height, width } or null', value);
  return checkInteger(option, value, 1, MAX_SIDE);
}

function checkChannels(
  option: string,
  value: unknown,
  allows: (channel: number) => boolean,
): readonly [number, number, number] {
  if (Array.isArray(value) && value.length === 3) {
    const [red, green, blue] = value as unknown[];
    const isFit = (item: unknown): item is number =>
      typeof item === 'number' && Number.isFinite(item) && allows(item);
    if (isFit(red) && isFit(green) && isFit(blue)) return Object.freeze([red, green, blue] as const);
  }
  throw invalidOption(option, `three finite numbers${option === 'std' ? ' other than 0' : ''}`, value);
}
