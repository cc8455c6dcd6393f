/** The image input of a model, and how pictures feed it. */
import { invalidOption } from '../../base/checks.js';
import type { TapirError } from '../../base/errors.js';
import { hasChannelsLast } from '../../onnx/graph/names/pixel-input.js';
import type { ImageNormalization } from '../../onnx/graph/rewrite/image-input.js';
import { valuesOf, type Transform } from '../images/transform/transform.js';
import { isNormalizedBy } from '../images/transform/value-table.js';
import { isTokenIds } from '../../run/model/token-ids.js';
import { encodeFloat16 } from '../../onnx/tensor/float16.js';
import type { ImageType, SharedImages } from '../../onnx/tensor/image-feed.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { takeRow } from '../../onnx/tensor/rows.js';
import { blankPhoto } from './blank-photo.js';
import type { FeedPlan, UnlikePhotos, Processor } from './feed-plan.js';

/** What takes images: an extractor, or a model. */
export interface ImageTaker {
  readonly inputs: readonly TensorInfo[];
  /** How its graph normalises bytes, if it does. */
  readonly imageNormalization?: ImageNormalization | null;
}

const IMAGE_TYPES: readonly ImageType[] = ['float32', 'float16', 'uint8'];
const RGB = 3;

/** Plans how pictures feed the image input of a model. Throws `OPTION_INVALID` that says what would fit. */
export function planImages(model: ImageTaker, processor: Processor): FeedPlan {
  const { transform, clips, rows: crops, bytes } = processor;
  const { channels, outputSize } = transform;
  const size = clips ? outputSize : processor.size;
  const { input, dtype, dims, frames } = findImageInput(model, channels, clips?.frames);
  const [rows, ...wanted] = frames === undefined ? dims : dims.toSpliced(frames, 1);
  const isLast = frames === undefined ? chooseLayout(wanted, dtype, transform) : frames === BEFORE_PIXELS;
  const axes = size && axesOf(size, channels, isLast);
  if (!axes && !takesAnySize(wanted, isLast))
    throw invalidOption('transform', 'one whose results all have the same size (set crop)', 'no fixed size');
  if (!fits(wanted, axes ?? axesOf({ height: 'any', width: 'any' }, channels, isLast))) {
    const shown = `"${input.name}" [${dims.join(', ')}]`;
    const expected = `one that fits the model's input ${shown}${adviseFit(wanted, isLast)}`;
    throw invalidOption(
      'transform',
      expected,
      axes ? `images of [${axes.join(', ')}]` : `${channels} channels`,
    );
  }
  const length = frames === undefined ? undefined : dims[frames];
  if (clips && typeof length === 'number' && length !== clips.frames) {
    const shown = `"${input.name}" [${dims.join(', ')}]`;
    throw invalidOption('clips.frames', `${length}, as the model's input ${shown} takes`, clips.frames);
  }
  const takesPixels = dtype === 'uint8';
  if (takesPixels) checkNormalization(model, transform);
  const multiple = typeof rows === 'number' ? rows : null;
  const made = transform.isFloat
    ? ({ holds: 'planes', values: null } as const)
    : ({ holds: 'bytes', values: valuesFor(dtype, isLast, transform) } as const);
  const shared = { name: input.name, dtype, channels, isLast, ...made };
  const feedAxes = frames === undefined ? axes : axes?.toSpliced(frames - 1, 0, clips!.frames);
  return {
    processor,
    inputs: [input.name],
    multiple,
    takesPixels,
    isLast,
    isPlain: dtype === 'float32' && (multiple === null || multiple === 1),
    unlike: axes ? null : unlikeImages(transform),
    feedsOf: (photos, fed) => [
      {
        ...shared,
        dims: [fed, ...(feedAxes ?? axesOf(photos[0]!, channels, isLast))],
        images: photos.flatMap(({ data }) => (crops === 1 ? data : cutInto(data, bytes! / crops))),
      },
    ],
  };
}

/** The crops of a photo, which follow each other. */
function cutInto(data: Uint8Array, bytes: number): Uint8Array[] {
  return Array.from({ length: data.length / bytes }, (_, i) => data.subarray(i * bytes, (i + 1) * bytes));
}

function axesOf<Side>(
  { height, width }: Record<'height' | 'width', Side>,
  channels: number,
  isLast: boolean,
) {
  return isLast ? [height, width, channels] : [channels, height, width];
}

/** Whether the graph leaves height and width open. */
function takesAnySize(wanted: readonly unknown[], isLast: boolean): boolean {
  const [height, width] = isLast ? wanted : wanted.slice(1);
  return typeof height !== 'number' && typeof width !== 'number';
}

/** Larger than any side. */
const MOST_SIDE = 2 ** 24;
/** Pictures of unlike sizes: those of one size run together. */
function unlikeImages(transform: Transform): UnlikePhotos {
  return {
    canMix: false,
    hasRows: true,
    shapeOf: ({ height, width }) => height * MOST_SIDE + width,
    partOf: (_output, tensor, _photos, index) => takeRow(tensor, index),
    blank: () => blankPhoto(transform),
  };
}

/** Where the axis of frames lies: [N, C, T, H, W], or [N, T, H, W, C]. */
const BEHIND_CHANNELS = 2;
const BEFORE_PIXELS = 1;

function findImageInput(
  model: ImageTaker,
  channels: number,
  clips: number | undefined,
): {
  readonly input: TensorInfo;
  readonly dtype: ImageType;
  readonly dims: NonNullable<TensorInfo['dims']>;
  /** The axis of the frames of clips; undefined for photos. */
  readonly frames: number | undefined;
} {
  const [input, ...others] = model.inputs;
  const dtype = IMAGE_TYPES.find((type) => type === (input?.dtype ?? 'float32'));
  const { dims } = input ?? {};
  if (input && others.length === 0 && dims && dtype) {
    if (dims.length === 4 && clips === undefined) return { input, dtype, dims, frames: undefined };
    const isLast = dims[4] === channels && dims[1] !== channels;
    if (dims.length === 5 && clips !== undefined)
      return { input, dtype, dims, frames: isLast ? BEFORE_PIXELS : BEHIND_CHANNELS };
    const shown = `"${input.name}" [${dims.join(', ')}]`;
    if (dims.length === 4)
      throw invalidOption('clips', `left out: the model's input ${shown} has no axis of frames`, clips);
    if (dims.length === 5)
      throw invalidOption(
        'clips',
        `given, for a model whose input ${shown} takes clips of frames (such as 16)`,
        undefined,
      );
  }
  throw notOneImage(model.inputs);
}

/** `OPTION_INVALID`, for a model that takes something else than a picture. */
export function notOneImage(inputs: ImageTaker['inputs']): TapirError<'OPTION_INVALID'> {
  const all = inputs.map(({ name, dtype, dims }) => `${name} ${dtype} [${dims?.join(', ') ?? '?'}]`);
  if (inputs.some(isTokenIds) && !inputs.some(({ dims }) => (dims?.length ?? 0) > 2)) {
    const tower =
      'an image model: this is a text tower, which embeds texts (tapir search --text, createTextEncoder)';
    return invalidOption('model', tower, all.join('; '));
  }
  const named = inputs.map(({ name }) => `${JSON.stringify(name)}: …`).join(', ');
  const others =
    inputs.length > 1
      ? ` (run one of several inputs in code with extractor.run({ ${named} }), or return a value that needs the image alone)`
      : '';
  const expected = `one with a single image input, [N, C, H, W] or [N, H, W, C], of float32, float16 or uint8${others}`;
  return invalidOption('model', expected, all.join('; '));
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

function fits(wanted: readonly unknown[], axes: readonly unknown[]): boolean {
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
