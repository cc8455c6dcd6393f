/** Features of a layer → PNG: places that look alike to the model have like colours. */
import { checkOneOf, invalidOption, type Options } from '../../base/checks.js';
import { checkedBy, oneOf, optional, readOptions, type Fields } from '../../base/options.js';
import type { Layout } from '../../graph/layout.js';
import { encodePng } from '../../images/encode.js';
import type { Size } from '../../images/pixels/geometry.js';
import { readSides } from '../../images/transform/check-transform.js';
import { makeTensor, mismatch, readTensor, type TensorLike } from '../../tensor/tensor.js';
import { floatsOf } from '../../tensor/widen.js';
import { readMaps } from '../maps/maps.js';
import { principalColours } from '../maps/principal-colours.js';

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
  readonly layout: Layout | null;
  /**
   * Size of the image that the model saw: the picture has it, and tokens are laid out by it. Without it, a place becomes 16 × 16
   * pixels, and tokens are a square.
   * @default undefined
   */
  readonly imageSize: Size | undefined;
}

const LAYOUTS = ['NCHW', 'NHWC', 'NLC', 'NCL'] as const;
const MOST_PIXELS = 2 ** 24;

const FIELDS: Fields<FeatureDrawOptions> = {
  method: oneOf(['pca'], 'pca'),
  layout: checkedBy<Layout | null>(
    (option, value) => (value === null ? null : checkOneOf(option, value, LAYOUTS)),
    null,
  ),
  imageSize: optional(checkSize),
};

function checkSize(option: string, value: unknown): Size {
  const sides = readSides(option, value);
  if (sides) return sides;
  throw invalidOption(option, '{ height, width } in pixels', value);
}

/** Side of a place, if the image's size is not given. */
const PLACE_PIXELS = 16;

/**
 * Draws the features of a layer as a PNG, as the pictures of DINO are: places with like features have like colours. Class and
 * register tokens are left out.
 *
 * @param features - Maps `[N, C, H, W]` or tokens `[N, L, C]`, of at least three channels, of any number dtype. The pictures of several
 * images stand side by side, and the same colour means the same in all.
 * @param given - See {@link FeatureDrawOptions}.
 * @returns The bytes of the file.
 * @throws {@link TapirError} `OUTPUT_MISFIT` for what has no places; `INPUT_MISMATCH`; `OPTION_INVALID`; `DEPENDENCY_MISSING`
 * without sharp.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor, loadImage } from 'onnx-tapir';
 * import { drawFeatures } from 'onnx-tapir/explain';
 *
 * await using extractor = await createFeatureExtractor('dinov2.onnx', { 'blocks.11': 'patches' });
 * const photo = await loadImage('dog.jpg');
 * const { patches } = await extractor.run(photo.toTensor());
 * const png = await drawFeatures(patches, { imageSize: photo });
 * ```
 */
export async function drawFeatures(
  features: TensorLike,
  given: Options<FeatureDrawOptions> = {},
): Promise<Uint8Array> {
  const { layout, imageSize } = readOptions(FIELDS, given, 'drawFeatures');
  const tensor = readTensor('features', features);
  const values = floatsOf(tensor);
  if (!values) throw mismatch('features', 'a tensor of numbers', tensor.dtype);
  const shape = imageSize && ([imageSize.height, imageSize.width] as const);
  const maps = readMaps('features', makeTensor('float32', tensor.dims, values), layout, shape);
  const [rows, columns] = maps.size;
  const picture = imageSize ?? { height: rows * PLACE_PIXELS, width: columns * PLACE_PIXELS };
  const [height, width] = [picture.height, picture.width * maps.rows];
  if (height * width > MOST_PIXELS)
    throw invalidOption(
      'imageSize',
      'one that makes a picture of at most 2^24 pixels',
      `${height} × ${width}`,
    );
  const colours = await principalColours(maps);
  if (!colours)
    throw mismatch('features', 'of at least 3 channels and 3 places', `[${tensor.dims.join(', ')}]`);
  const data = new Uint8Array(3 * height * width);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const image = Math.floor(x / picture.width);
      const row = Math.floor(((y + 0.5) * rows) / height);
      const column = Math.floor((((x % picture.width) + 0.5) * columns) / picture.width);
      const from = 3 * ((image * rows + row) * columns + column);
      data.set(colours.subarray(from, from + 3), 3 * (y * width + x));
    }
  return await encodePng({ height, width, data });
}
