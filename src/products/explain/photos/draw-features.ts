/** Features of a layer → PNG: places that look alike to the model have like colours. */
import { encodePng } from '../../../photos/images/encode.js';
import { readSides } from '../../../photos/images/transform/check-transform.js';
import { checkedBy, number, oneOf, optional, readOptions, type Fields } from '../../../base/options.js';
import { invalidOption, type Options } from '../../../base/checks.js';
import { floatsOf } from '../../../onnx/tensor/widen.js';
import { makeTensor, mismatch, readTensor, type TensorLike } from '../../../onnx/tensor/tensor.js';
import { COLOUR_CLIP, principalColours } from '../../maps/principal-colours.js';
import { readMaps, type Maps } from '../../maps/maps.js';
import type { FeatureInfo } from '../../../run/model/prune/feature-info.js';
import type { Size } from '../../../photos/images/pixels/geometry.js';

/** Options of {@link drawFeatures}. */
export interface FeatureDrawOptions {
  /**
   * How channels become colours. `pca`: the first three principal components are red, green and blue.
   * @default 'pca'
   */
  readonly method: 'pca';
  /**
   * The order of the axes, as {@link FeatureInfo} has it; null is `NCHW` for four axes and `NLC` for three.
   * @default null
   */
  readonly layout: FeatureInfo['layout'];
  /**
   * Size of the image that the model saw: the picture has it, and tokens are laid out by it. Without it, a place becomes 16 × 16
   * pixels, and tokens are a square.
   * @default undefined
   */
  readonly imageSize: Size | undefined;
  /**
   * The share of places that the range of colours leaves out at each end, from 0 to 0.49. A few extreme places then do not take the
   * contrast from all others. 0 scales from the minimum to the maximum.
   * @default 0.01
   */
  readonly clip: number;
}

const LAYOUT = oneOf(['NCHW', 'NHWC', 'NLC', 'NCL'], 'NCHW');
const MOST_PIXELS = 2 ** 24;

export const FEATURE_DRAW_FIELDS: Fields<FeatureDrawOptions> = {
  method: oneOf(['pca'], 'pca'),
  layout: checkedBy<FeatureInfo['layout']>(
    (option, value) => (value === null ? null : LAYOUT.check(option, value)),
    null,
  ),
  imageSize: optional(checkSize),
  clip: number(
    0,
    0.49,
    COLOUR_CLIP,
    'share of places left out of the range of colours at each end; 0 for none',
  ),
};

function checkSize(option: string, value: unknown): Size {
  // A loaded photo has both, beside its pixels.
  const { height, width } = (typeof value === 'object' && value !== null ? value : {}) as Partial<Size>;
  const sides = readSides(option, { height, width });
  if (sides) return sides;
  throw invalidOption(option, '{ height, width } in pixels', value);
}

/** Side of a place, if the image's size is not given. */
const PLACE_PIXELS = 16;

/**
 * Draws the features of a layer as a PNG, as the pictures of DINO are: places with like features have like colours. Class and
 * register tokens are left out.
 *
 * @param features - Maps `[N, C, H, W]` or tokens `[N, L, C]`, of at least three channels, of any number dtype; a list of them for
 * images of several sizes. The pictures of several images stand side by side, and the same colour means the same in all.
 * @param given - See {@link FeatureDrawOptions}.
 * @returns The bytes of the file.
 * @throws {@link TapirError} `OUTPUT_MISFIT` for what has no places; `FEATURE_AMBIGUOUS` for tokens of a run whose model moves patches in a way
 * that cannot be read; `INPUT_MISMATCH`; `OPTION_INVALID`; `DEPENDENCY_MISSING`
 * without sharp.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor, loadImage } from 'onnx-tapir';
 * import { drawFeatures } from 'onnx-tapir/explain';
 *
 * const extractor = await createFeatureExtractor('dinov2.onnx', { 'blocks.11': 'patches' });
 * const photo = await loadImage('dog.jpg');
 * const { patches } = await extractor.run(photo.toTensor());
 * const png = await drawFeatures(patches, { imageSize: photo });
 * await extractor.close();
 * ```
 */
export async function drawFeatures(
  features: TensorLike | readonly TensorLike[],
  given: Options<FeatureDrawOptions> = {},
): Promise<Uint8Array> {
  const { layout, imageSize, clip } = readOptions(FEATURE_DRAW_FIELDS, given, 'drawFeatures');
  const shape = imageSize && ([imageSize.height, imageSize.width] as const);
  const tensors = isList(features) ? features : [features];
  const maps = tensors.map((each, i) =>
    readFeatures(isList(features) ? `features[${i}]` : 'features', each, layout, shape),
  );
  const [first, ...others] = maps;
  if (!first) throw invalidOption('features', 'at least one tensor', features);
  for (const { channels } of others)
    if (channels !== first.channels)
      throw mismatch(
        'features',
        `tensors of ${first.channels} channels, as the first`,
        `${channels} channels`,
      );
  const pictures = maps.flatMap(({ rows, size: [height, width] }) => {
    const size = imageSize ?? { height: height * PLACE_PIXELS, width: width * PLACE_PIXELS };
    return Array.from({ length: rows }, () => size);
  });
  const height = Math.max(...pictures.map((picture) => picture.height));
  const width = pictures.reduce((sum, picture) => sum + picture.width, 0);
  if (height * width > MOST_PIXELS)
    throw invalidOption(
      'imageSize',
      'one that makes a picture of at most 2^24 pixels',
      `${height} × ${width}`,
    );
  const colours = await principalColours(maps, clip);
  if (!colours)
    throw mismatch('features', 'of at least 3 channels and 3 places', `${first.channels} channels`);
  const data = new Uint8Array(3 * height * width);
  let [left, next] = [0, 0];
  for (const [i, { rows, size }] of maps.entries()) {
    const pixels = 3 * size[0] * size[1];
    for (let row = 0; row < rows; row++) {
      const picture = pictures[next++]!;
      paint(data, width, left, picture, size, colours[i]!.subarray(row * pixels, (row + 1) * pixels));
      left += picture.width;
    }
  }
  return await encodePng({ height, width, data });
}

function isList(features: TensorLike | readonly TensorLike[]): features is readonly TensorLike[] {
  return Array.isArray(features);
}

function readFeatures(
  name: string,
  features: TensorLike,
  layout: FeatureInfo['layout'],
  shape: readonly [number, number] | undefined,
): Maps {
  const tensor = readTensor(name, features);
  const values = floatsOf(tensor);
  if (!values) throw mismatch(name, 'a tensor of numbers', tensor.dtype);
  return readMaps(name, makeTensor('float32', tensor.dims, values), layout, shape, features);
}

/** Paints the places of one image, from a column of the picture on. */
function paint(
  to: Uint8Array,
  stride: number,
  left: number,
  { height, width }: Size,
  [rows, columns]: readonly [number, number],
  colours: Uint8Array,
): void {
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const row = Math.floor(((y + 0.5) * rows) / height);
      const column = Math.floor(((x + 0.5) * columns) / width);
      const from = 3 * (row * columns + column);
      to.set(colours.subarray(from, from + 3), 3 * (y * stride + left + x));
    }
}
