/** Image file → the pixels that a model is fed. */
import { decodeBytes, isWholeJpeg } from '../decode/decode.js';
import type { Reduction } from '../decode/reduction.js';
import { labelOf, readImageFile, type ImageFile, type StampTaker } from '../file/image-file.js';
import { countCrops } from '../pixels/crops.js';
import type { Size } from '../pixels/geometry.js';
import type { RgbImage } from '../pixels/rgb-image.js';
import type { FloatImage } from './float-image.js';
import { cutCrops } from './cut-crops.js';
import { cropRandomly, flipRows } from './random-crop.js';
import { copyPlanes, spreadPixels } from '../../../onnx/tensor/spread-pixels.js';
import { makeTensor, type Tensor } from '../../../onnx/tensor/tensor.js';
import { TapirError } from '../../../base/errors.js';
import { cutTensors } from '../patches/patch-tensors.js';
import { markAsPhotos } from './photo-tensors.js';
import { readMarks } from '../formats/format-table.js';
import type { Marks } from '../formats/marks.js';
import { keepTransform, transformJpeg, transformOf, valuesOf, type Transform } from './transform.js';

/** Transformed pixels and where they come from. */
export interface LoadedPixels {
  /** With several crops, all of them one after the other; height and width are those of one. */
  readonly image: RgbImage | FloatImage;
  /** Size of the image in the file. */
  readonly from: Size;
  readonly reduction: Reduction;
  readonly marks: Marks;
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
  if (given.options.crops !== 'center' && augmentSeed === undefined) {
    const whole = await loadPixels(file, given.with({ crop: null, crops: 'center' }), undefined, taker);
    return { ...whole, image: cutCrops(whole.image, given.options, labelOf(file), into) };
  }
  const started = performance.now();
  // What is cropped at random is resized to the transform's size, and not cropped again.
  const transform =
    augmentSeed === undefined
      ? given
      : given.with({ first: null, resize: given.outputSize, crop: null, crops: 'center', decode: 'exact' });
  const bytes = readImageFile(file, taker);
  const isDirect = augmentSeed === undefined && isWholeJpeg(bytes, transform.options);
  const direct = isDirect ? transformJpeg(transform, bytes, into) : undefined;
  if (direct) {
    const { source: from, resampleMs } = direct;
    const decodeMs = performance.now() - started - resampleMs;
    const { height, width, data } = direct;
    return {
      image: { height, width, data },
      from,
      reduction: 1,
      marks: readMarks(bytes),
      decodeMs,
      resampleMs,
    };
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
  const [decodeMs, resampleMs] = [decodedAt - started, performance.now() - decodedAt];
  return { image, from, reduction, marks: readMarks(bytes), decodeMs, resampleMs };
}

function mirror(image: RgbImage | FloatImage): void {
  if ('planes' in image) flipRows(image.planes, image.width, 1);
  else flipRows(image.data, image.width, 3);
}

/** Pixels that a model can be fed, and the same as a tensor. With several crops, `data` has one after the other. */
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
   * The normalised tensor, `[crops, channels, height, width]` float32 (1, 5 or 10 crops, as `crops` of the transform says);
   * `[crops, height, width, channels]` with `layout: 'nhwc'`. It is bit for bit that of the transform's library, or in float32 where that
   * gives bytes. Throws {@link TapirError} `TENSOR_SEVERAL` if the transform gives several tensors.
   */
  toTensor(): { dtype: 'float32'; dims: [number, number, number, number]; data: Float32Array };
  /**
   * All tensors of the photo by name, as the transform's library gives them for one photo ({@link Transform.tensors} lists them): bit
   * for bit its names, element types and dims. Of a transform with one tensor, `{ pixel_values: toTensor() }`, in uint8 where a processor of
   * transformers neither scales nor normalises.
   */
  toTensors(): Record<string, Tensor>;
}

/** Loaded pixels as users get them. */
export function imageOf(
  { image, from, reduction }: Pick<LoadedPixels, 'image' | 'from' | 'reduction'>,
  transform: Transform,
): LoadedImage {
  const { height, width } = image;
  const data = 'planes' in image ? image.bytes() : image.data;
  const loaded: LoadedImage = {
    height,
    width,
    data,
    channelOrder: transform.options.channelOrder,
    sourceWidth: from.width,
    sourceHeight: from.height,
    reduction,
    toTensor: () => tensorOf(image, transform),
    toTensors: () => {
      const { patches } = transform.options;
      return markAsPhotos(
        patches
          ? cutTensors({ height, width, data }, patches, valuesOf(transform))
          : { pixel_values: asBytes(tensorOf(image, transform), transform) },
      );
    },
  };
  return keepTransform(loaded, transform);
}

/** Pixels that {@link Transform.apply} gave, as a loaded photo; undefined for anything else. */
export function imageOfApplied(value: unknown): LoadedImage | undefined {
  const transform = transformOf(value);
  const image = value as RgbImage;
  return transform && imageOf({ image, from: image, reduction: 1 }, transform);
}

function severalTensors(tensors: readonly string[]): TapirError<'TENSOR_SEVERAL'> {
  return new TapirError(
    'TENSOR_SEVERAL',
    `the transform gives ${tensors.length} tensors (${tensors.join(', ')}), not one; call toTensors(), or pass the photo itself to run`,
    { details: { tensors } },
  );
}

/** The tensor in the type of the transform's library. */
function asBytes(tensor: ReturnType<LoadedImage['toTensor']>, { givesBytes }: Transform): Tensor {
  return givesBytes ? makeTensor('uint8', tensor.dims, Uint8Array.from(tensor.data)) : tensor;
}

function tensorOf(image: RgbImage | FloatImage, transform: Transform): ReturnType<LoadedImage['toTensor']> {
  const { height, width } = image;
  const { channels, options, tensors } = transform;
  if (tensors.length > 1) throw severalTensors(tensors.map(({ name }) => name));
  const isLast = options.layout === 'nhwc';
  const rows = countCrops(options.crops);
  const row = channels * height * width;
  const data = new Float32Array(rows * row);
  const part = <Elements extends Uint8Array | Float32Array>(of: Elements, at: number): Elements =>
    of.subarray((at * of.length) / rows, ((at + 1) * of.length) / rows) as Elements;
  for (let at = 0; at < rows; at++) {
    const into = part(data, at);
    if ('planes' in image) copyPlanes(part(image.planes, at), into, { channels, isLast });
    else spreadPixels(part(image.data, at), valuesOf(transform), into, { channels, isLast });
  }
  const dims = isLast ? ([height, width, channels] as const) : ([channels, height, width] as const);
  return { dtype: 'float32', dims: [rows, ...dims], data };
}
