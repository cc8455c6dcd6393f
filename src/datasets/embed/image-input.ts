/** The image input of a model, and whether a transform fits it. */
import { invalidOption } from '../../base/checks.js';
import type { Extractor } from '../../extract/extractor.js';
import { hasChannelsLast } from '../../graph/names/pixel-input.js';
import { valuesOf, type Transform } from '../../images/transform/transform.js';
import { isNormalizedBy } from '../../images/transform/value-table.js';
import { encodeFloat16 } from '../../tensor/float16.js';
import type { ImageType, SharedImages } from '../../tensor/image-feed.js';
import type { TensorInfo } from '../../tensor/tensor-info.js';

/** How a model takes images, and what they are made of. */
export interface ImageInput {
  /** The part of a feed that all runs share. */
  readonly feed: Omit<SharedImages, 'dims' | 'pixels' | 'images'>;
  /** The axes of one image in the feed. */
  readonly axes: readonly number[];
  /** Bytes of one decoded image. */
  readonly imageBytes: number;
  /** The number of rows that the graph was exported for: runs are padded to a multiple of it. Null if it takes any number. */
  readonly multiple: number | null;
  /** Whether the graph takes bytes and normalises them. */
  readonly takesPixels: boolean;
}

/** What takes images: an extractor, or a model whose graph normalises nothing. */
type ImageTaker = Pick<Extractor, 'inputs' | 'imageNormalization'>;

const IMAGE_TYPES: readonly ImageType[] = ['float32', 'float16', 'uint8'];
const RGB = 3;

/** Fits a transform to the only input of a model. Throws `OPTION_INVALID` that says what would fit. */
export function fitTransform(model: ImageTaker, transform: Transform): ImageInput {
  const size = transform.outputSize;
  if (size === null)
    throw invalidOption('transform', 'one whose results all have the same size (set crop)', 'no fixed size');
  const { input, dtype, dims } = findImageInput(model);
  const { channels } = transform;
  const { height, width } = size;
  const [rows, ...wanted] = dims;
  const isLast = chooseLayout(wanted, dtype, transform);
  const axes = isLast ? [height, width, channels] : [channels, height, width];
  if (!fits(wanted, axes)) {
    const shown = `"${input.name}" [${dims.join(', ')}]`;
    const expected = `one that fits the model's input ${shown}${adviseFit(wanted, isLast)} (on the command line: --transform)`;
    throw invalidOption('transform', expected, `images of [${axes.join(', ')}]`);
  }
  const takesPixels = dtype === 'uint8';
  if (takesPixels) checkNormalization(model, transform);
  const feed = { name: input.name, dtype, channels, isLast };
  const made = transform.isFloat
    ? ({ holds: 'planes', values: null } as const)
    : ({ holds: 'bytes', values: valuesFor(dtype, isLast, transform) } as const);
  const pixelBytes = transform.isFloat ? channels * Float32Array.BYTES_PER_ELEMENT : RGB;
  return {
    feed: { ...feed, ...made },
    axes,
    imageBytes: pixelBytes * height * width,
    multiple: typeof rows === 'number' ? rows : null,
    takesPixels,
  };
}

function findImageInput(model: ImageTaker): {
  readonly input: TensorInfo;
  readonly dtype: ImageType;
  readonly dims: NonNullable<TensorInfo['dims']>;
} {
  const [input, ...others] = model.inputs;
  const dtype = IMAGE_TYPES.find((type) => type === (input?.dtype ?? 'float32'));
  if (input && others.length === 0 && input.dims?.length === 4 && dtype)
    return { input, dtype, dims: input.dims };
  const inputs = model.inputs.map((one) => `${one.name} ${one.dtype} [${one.dims?.join(', ') ?? '?'}]`);
  const expected =
    'one with a single image input, [N, C, H, W] or [N, H, W, C], of float32, float16 or uint8';
  throw invalidOption('model', expected, inputs.join('; '));
}

/** Whether the channels come last: as the graph says, else as the transform says; bytes come as RGB pixels. */
function chooseLayout(
  wanted: readonly unknown[],
  dtype: ImageType,
  { channels, options }: Transform,
): boolean {
  const [isFirst, isLast] = [wanted[0] === channels, wanted[2] === channels];
  if (isFirst !== isLast) return isLast;
  return hasChannelsLast(wanted) ?? (dtype === 'uint8' || options.layout === 'nhwc');
}

function fits(wanted: readonly unknown[], axes: readonly number[]): boolean {
  return axes.every((length, axis) => typeof wanted[axis] !== 'number' || wanted[axis] === length);
}

/** What would fit, in words. */
function adviseFit(wanted: readonly unknown[], isLast: boolean): string {
  const [height, width, channels] = isLast ? wanted : [wanted[1], wanted[2], wanted[0]];
  if (typeof channels === 'number' && channels !== 1 && channels !== RGB)
    return `, which a transform cannot be: it takes ${channels} channels${isLast ? ', channels last' : ''}, and an image has ${RGB}, or 1 (feed it tensors instead)`;
  const advice = [
    ...(channels === 1
      ? ['channelOrder "grey", with one number as mean and one as std']
      : channels === RGB
        ? [`${RGB} channels`]
        : []),
    ...(typeof height === 'number' || typeof width === 'number'
      ? [`crop ${[height, width].map((side) => (typeof side === 'number' ? side : 'any')).join(' × ')}`]
      : []),
  ];
  return advice.length > 0 ? `: ${advice.join(', ')}` : '';
}

function valuesFor(dtype: ImageType, isLast: boolean, transform: Transform): SharedImages['values'] {
  if (dtype === 'float32') return valuesOf(transform);
  if (dtype === 'float16') return encodeFloat16(valuesOf(transform));
  // The pixels themselves are such a feed.
  if (isLast && transform.channels === RGB) return null;
  return Uint8Array.from({ length: transform.channels * 256 }, (_, i) => i % 256);
}

/** Checks that the graph normalises as the transform says, because the manifest records the transform. */
function checkNormalization({ imageNormalization: inGraph }: ImageTaker, transform: Transform): void {
  if (transform.isFloat)
    throw invalidOption(
      'transform',
      'one that resizes bytes, for a graph that takes bytes',
      'resampler "torch-float"',
    );
  if (!inGraph) return; // The model was exported with its own normalisation.
  const [ours, theirs] = [valuesOf(transform), inGraph.values];
  const isSame = theirs
    ? ours.every((value, i) => value === theirs[i])
    : isNormalizedBy(ours, inGraph.mean, inGraph.std);
  if (isSame) return;
  const text = (values: readonly number[] | null): string => (values ? `[${values.join(', ')}]` : 'none');
  const { mean, std } = transform.options;
  const expected = `one whose values the graph gives: (x / 255 − ${text(inGraph.mean)}) / ${text(inGraph.std)} (create the extractor with input: { type: 'image-uint8', mean, std })`;
  throw invalidOption('transform', expected, `${text(mean)}, ${text(std)}`);
}
