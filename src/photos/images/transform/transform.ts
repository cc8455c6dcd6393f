/** Decoded image → resized and cropped pixels → normalised floats, with the numbers of the library that trained the model. */
import { isPlainObject, withDefaults, type Options } from '../../../base/checks.js';
import { checkTransform } from './check-transform.js';
import { jpegOptions } from '../decode/decode.js';
import { misfitImage, tooLargeImage } from '../file/image-errors.js';
import { countCrops } from '../pixels/crops.js';
import { cropOf, isFixedSize, resizedSize, type Size } from '../pixels/geometry.js';
import { patchProcessor } from '../patches/patch-processors.js';
import { checkRgbImage, reverseChannels, toGrey, type RgbImage } from '../pixels/rgb-image.js';
import { resampleJpeg, type ResampledJpeg, type ResampleTarget } from './resample-jpeg.js';
import { padPlanes, type FloatImage } from './float-image.js';
import { sizeOfFirst, takeFirst } from './first-step.js';
import { visiblePart } from '../resample/resample-plan.js';
import { resampleFloat } from '../resample/resample-float.js';
import { resample } from '../resample/resample.js';
import { TRANSFORM_PRESETS, type TransformOptions, type TransformPreset } from './transform-options.js';
import { createValueTable, normalizeScaled } from './value-table.js';
import { patchTensors } from '../patches/patch-tensors.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';

/** Where a transform came from. */
export interface TransformSource {
  /** Path of the configuration file; null for a configuration without one. */
  readonly file: string | null;
  /** The library that the configuration belongs to. */
  readonly kind: 'transformers' | 'timm' | 'open_clip' | 'torchvision' | 'onnx-tapir';
  /** The arithmetic, where the library has two; else null. */
  readonly backend: 'pil' | 'torchvision' | null;
  /** The weights of torchvision that `torchvision:…` names, or that its `DEFAULT` stands for; left out for all else. */
  readonly weights?: string;
  /** Fields of the configuration that change no pixels and were not used. */
  readonly ignored: readonly string[];
  /** Configurations in the same folder that state another transform. Left out if all state this one. */
  readonly others?: readonly OtherSource[];
}

/** A configuration that was not taken. */
export interface OtherSource {
  readonly file: string;
  /** What it says, where that differs: `mean: [0.5, 0.5, 0.5]`; or why it cannot be followed. */
  readonly differs: readonly string[];
}

const transforms = new WeakMap<object, Transform>();

/** Remembers the transform that made an image, and returns the image. */
export function keepTransform<Image extends object>(image: Image, transform: Transform): Image {
  transforms.set(image, transform);
  return image;
}

/** The transform that made an image; undefined for anything else. */
export function transformOf(image: unknown): Transform | undefined {
  return typeof image === 'object' && image !== null ? transforms.get(image) : undefined;
}

let valuesOf: (transform: Transform) => Float32Array;

/** A checked transform, which never changes. Create one with {@link createTransform}. */
export class Transform {
  /** Every option, with defaults filled in. Frozen, nested arrays and objects included. */
  readonly options: TransformOptions;
  /** Name of the preset that it was created from; null if it was created from options. */
  readonly preset: TransformPreset | null;
  /** The configuration that it was read from; null if there was none. */
  readonly source: TransformSource | null;
  /** Height and width of every result, or of each of its crops; null if they depend on the image. */
  readonly outputSize: Size | null;
  /** Whether nobody stated it: no configuration lay beside the model, and its file did not contradict. */
  readonly assumed: boolean;
  /** Channels of the tensor: 3, or 1 for grey. */
  readonly channels: 1 | 3;
  #values: Float32Array | undefined;

  static {
    valuesOf = (transform) => (transform.#values ??= createValueTable(transform.options, transform.channels));
  }

  /** Use {@link createTransform}. */
  constructor(
    options: TransformOptions,
    preset: TransformPreset | null,
    source: TransformSource | null = null,
    assumed = false,
  ) {
    this.options = options;
    this.preset = preset;
    this.source = source;
    this.assumed = assumed;
    const fixed = isFixedSize(options.resize) ? options.resize : null;
    this.outputSize = options.crop === null ? fixed : toSize(options.crop);
    this.channels = options.channelOrder === 'grey' ? 1 : 3;
    Object.freeze(this);
  }

  /**
   * The same transform with some options changed.
   *
   * @throws {@link TapirError} `OPTION_INVALID`.
   */
  with(changes: Options<TransformOptions>): Transform {
    const options = withDefaults(this.options, changes, 'transform');
    const isSame = Object.entries(options).every(
      ([name, value]) => value === this.options[name as keyof TransformOptions],
    );
    return isSame ? this : new Transform(checkTransform(options), null, this.source, this.assumed);
  }

  /**
   * The tensors of one photo, as `toTensors()` of {@link loadImage} gives them: name, element type and sizes, with a name for a size that
   * the photo decides.
   */
  get tensors(): readonly TensorInfo[] {
    const { patches, layout, crops } = this.options;
    if (patches) return patchTensors(patches);
    const { height, width } = this.outputSize ?? { height: 'height', width: 'width' };
    const axes = layout === 'nhwc' ? [height, width, this.channels] : [this.channels, height, width];
    const dtype = this.givesBytes ? 'uint8' : 'float32';
    return [{ name: 'pixel_values', dtype, dims: [countCrops(crops), ...axes] }];
  }

  /** Whether its library leaves bytes as they are: transformers without scaling and normalising. */
  get givesBytes(): boolean {
    const { arithmetic, scale, offset, mean, secondStd, resampler, patches } = this.options;
    const isPlain = scale === 1 && offset === 0 && mean === null && secondStd === null;
    return isPlain && arithmetic !== 'torchvision' && resampler !== 'torch-float' && patches === null;
  }

  /** Height and width of the result of an image. */
  sizeOf(image: Size): Size {
    const { height, width } = targetOf(this.options, sizeOfFirst(image, this.options)).region;
    return { height, width };
  }

  /** Whether results are no bytes: resizing or padding gives floats. */
  get isFloat(): boolean {
    return this.options.resampler === 'torch-float' || (this.options.fill === null && !this.givesBytes);
  }

  /**
   * Resizes and crops, to the crop in the centre if there are several. An image that the decoder reduced gets the size that the full one would get.
   * `run` takes the result, and normalises it; of a transform that {@link isFloat}, give it {@link loadImage}'s.
   *
   * @param image - For grey, its pixels are changed.
   * @param into - Receives the pixels; a new array by default. It needs exactly the size of the result and may lie in shared
   * memory.
   * @returns Pixels in the order of `channelOrder`; grey is repeated three times.
   */
  apply(image: RgbImage & { readonly source?: Size }, into?: Uint8Array): RgbImage {
    checkRgbImage(image);
    const { channelOrder } = this.options;
    if (channelOrder === 'grey') toGrey(image.data);
    const taken = takeFirst(image, this.options);
    const { size, region, fill, ...sampling } = targetOf(this.options, taken.source ?? taken);
    const pixels = resample(taken, size, region, sampling, into, fill);
    if (channelOrder === 'bgr') reverseChannels(pixels.data);
    return this.isFloat ? pixels : keepTransform(pixels, this);
  }

  /**
   * Scales, resizes, crops and normalises in float32, for a transform that {@link isFloat}.
   *
   * @param planes - Receives the channels' planes (CHW); a new array by default.
   */
  applyFloat(image: RgbImage & { readonly source?: Size }, planes?: Float32Array): FloatImage {
    checkRgbImage(image);
    const { options, channels } = this;
    if (options.resampler !== 'torch-float') {
      const taken = takeFirst(image, options);
      const { size, region } = targetOf(options, taken.source ?? taken);
      return padPlanes(this.apply(image), visiblePart(size, region), region, valuesOf(this), planes);
    }
    const { size, region, fill } = targetOf(options, image);
    if (options.channelOrder === 'grey') toGrey(image.data);
    const unshifted = { ...options, offset: 0, mean: null, std: null, secondStd: null };
    const scaled = resampleFloat(image, size, region, createValueTable(unshifted, 1), fill);
    if (options.channelOrder === 'bgr') reverseChannels(scaled);
    const plane = region.height * region.width;
    const data = planes ?? new Float32Array(channels * plane);
    for (let channel = 0; channel < channels; channel++)
      for (let at = 0; at < plane; at++)
        data[channel * plane + at] = normalizeScaled(options, channel, scaled[at * 3 + channel]!);
    const bytes = (): Uint8Array => Uint8Array.from(scaled, (value) => Math.round(value / options.scale));
    return { height: region.height, width: region.width, planes: data, bytes };
  }
}

/** A transform's value for each channel and byte, `channels × 256` floats; shared, so leave it unchanged. */
export { valuesOf };

/**
 * Decodes a JPEG and resizes and crops its rows as they come, with the pixels of {@link Transform.apply}.
 *
 * @returns Undefined if another decoder must read the file; `into` may then hold part of an image.
 */
export function transformJpeg(
  { options, isFloat }: Transform,
  bytes: Uint8Array,
  into?: Uint8Array,
): ResampledJpeg | undefined {
  // Grey is made before the resize; floats, what a first step gives, and what is not antialiased are resized from a whole image.
  const { channelOrder, first, antialias } = options;
  if (isFloat || channelOrder === 'grey' || first !== null || !antialias) return undefined;
  const image = resampleJpeg(bytes, jpegOptions(options), (source) => targetOf(options, source), into);
  if (image && options.channelOrder === 'bgr') reverseChannels(image.data);
  return image;
}

function targetOf(options: TransformOptions, image: Size): ResampleTarget {
  const { resize, crop, cropOffset, cropPlace, interpolation, antialias, resampler, limitPixels, patches } =
    options;
  const size = patches ? patchProcessor(patches).sizeOf(image, patches) : resizedSize(image, resize);
  if (size.height === 0 || size.width === 0)
    throw misfitImage(`a side of it, ${image.height} × ${image.width}, leaves no whole patch`);
  const region = cropOf(size, crop === null ? null : toSize(crop), cropOffset, cropPlace);
  // Without a crop, a file of 1 × 65000 pixels would become one of 256 × 16 million.
  const isBounded = crop !== null || isFixedSize(resize);
  const limit = Math.max(limitPixels, TRANSFORM_PRESETS.ImageNet1K_V1.limitPixels);
  if (!isBounded && region.height * region.width > limit) throw tooLargeImage('the resized image', limit);
  const colour = options.fill ?? 0;
  const fill = typeof colour === 'number' ? ([colour, colour, colour] as const) : colour;
  const whose = resampler === 'torch-float' ? 'pillow' : resampler;
  return { size, region, fill, interpolation, antialias, resampler: whose };
}

function toSize(size: number | Size): Size {
  return typeof size === 'number' ? Object.freeze({ height: size, width: size }) : size;
}

/** The transform of a preset, or of options; those that are left out have the values of `ImageNet1K_V1`. Throws `OPTION_INVALID`. */
export function makeTransform(given: TransformPreset | Options<TransformOptions>): Transform {
  if (typeof given === 'string') return new Transform(checkTransform(TRANSFORM_PRESETS[given]), given);
  const options = withDefaults(TRANSFORM_PRESETS.ImageNet1K_V1, withoutOrigin(given), 'transform');
  return new Transform(checkTransform(options), null);
}

type Recorded = Options<TransformOptions> &
  Readonly<Partial<Record<'preset' | 'source' | 'assumed', unknown>>>;

/** Options without what the manifest of a dataset records beside them: where they came from. */
export function withoutOrigin(given: Options<TransformOptions>): Options<TransformOptions> {
  // What is no object is refused with the options.
  if (!isPlainObject(given) || !('preset' in given)) return given;
  const { preset: _preset, source: _source, assumed: _assumed, ...options } = given as Recorded;
  return options;
}
