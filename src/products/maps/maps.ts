/** Layers as maps, channels first. Tokens `[N, L, C]` become a grid without class and register tokens. */
import { TapirError } from '../../base/errors.js';
import type { FeatureInfo } from '../../run/model/prune/feature-info.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import { findGrid, MOVED, movedPatches, placedGrid } from '../../onnx/graph/rewrite/token-grid.js';
import { placesOfTensor } from '../../run/model/prune/model-tokens.js';
import { makeTensor } from '../../onnx/tensor/tensor.js';
import { permute } from '../../onnx/tensor/permute.js';

export type Size = readonly [height: number, width: number];

/** Maps `[N, C, H, W]`. */
export interface Maps {
  readonly rows: number;
  readonly channels: number;
  readonly size: Size;
  readonly data: Float32Array;
  /** Tokens that stood before the patches, and are left out. */
  readonly prefix: number;
}

/**
 * Reads a layer, or an image.
 *
 * @param name - The name of the tensor in messages.
 * @param layout - The order of the axes; where it is unknown, `NCHW` or `NLC`.
 * @param imageSize - Height and width of the image that the tokens are patches of; where it is unknown, it counts as square.
 * @param source - What a run gave, where the tensor was made of it: its model tells where patches are.
 * @throws {@link TapirError} `OUTPUT_MISFIT` for what is neither a float32 map nor a grid of tokens; `FEATURE_AMBIGUOUS` for tokens that
 * the model moved in a way that cannot be read.
 */
export function readMaps(
  name: string,
  tensor: Tensor,
  layout: FeatureInfo['layout'],
  imageSize: Size | undefined,
  source: object = tensor,
): Maps {
  const found =
    tensor.dtype === 'float32' ? findMaps(tensor, layout, imageSize, source) : 'only float32 is read here';
  if (typeof found !== 'string') return found;
  if (found === MOVED) throw movedPatches(name);
  const actual = `${tensor.dtype} [${tensor.dims.join(', ')}]`;
  throw new TapirError('OUTPUT_MISFIT', `"${name}" is ${actual}: ${found}`, {
    details: { output: name, actual, reason: found },
  });
}

/** {@link readMaps}; returns the reason as text if the tensor holds no maps. */
export function findMaps(
  tensor: Tensor<'float32'>,
  layout: FeatureInfo['layout'],
  imageSize: Size | undefined,
  source: object = tensor,
): Maps | string {
  const { dims } = tensor;
  if (dims.length !== 3 && dims.length !== 4)
    return 'only a map [N, C, H, W] or tokens [N, L, C] have places';
  const isFirst = layout === 'NCL' || (dims.length === 4 && layout !== 'NHWC');
  const [rows, channels] = [dims[0]!, dims[isFirst ? 1 : dims.length - 1]!];
  const { data } = isFirst ? tensor : permute(tensor, dims.length === 4 ? [0, 3, 1, 2] : [0, 2, 1]);
  if (dims.length === 4) {
    const size: Size = isFirst ? [dims[2]!, dims[3]!] : [dims[1]!, dims[2]!];
    return { rows, channels, size, data, prefix: 0 };
  }
  const tokens = dims[isFirst ? 2 : 1]!;
  const measured = imageSize && { imageSize, tokens, channels, follows: undefined };
  const places = isFirst ? null : placesOfTensor(source, tokens, imageSize);
  if (places === 'moved') return MOVED;
  const grid = places ? placedGrid(places) : findGrid(tokens, undefined, measured);
  if (typeof grid === 'string') return grid;
  const order = grid.tokens ?? Array.from({ length: tokens - grid.prefix }, (_, i) => grid.prefix + i);
  const patches = Float32Array.from(
    { length: rows * channels * order.length },
    (_, i) => data[Math.floor(i / order.length) * tokens + order[i % order.length]!]!,
  );
  return { rows, channels, size: grid.size!, data: patches, prefix: tokens - order.length };
}

/** Undoes {@link readMaps} for an image: the axes in the model's order. */
export function toImage(
  { rows, channels, size, data }: Maps,
  layout: FeatureInfo['layout'],
): Tensor<'float32'> {
  const tensor = makeTensor('float32', [rows, channels, ...size], data);
  return layout === 'NHWC' ? permute(tensor, [0, 2, 3, 1]) : tensor;
}

/** The maps of one row: a view. */
export function rowOf({ data, channels, size }: Maps, row: number): Float32Array {
  const length = channels * size[0] * size[1];
  return data.subarray(row * length, (row + 1) * length);
}
