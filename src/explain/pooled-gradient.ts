/** The gradient of a layer in front of a pooling head, which is known without a backward pass. */
import { findPoolingHead } from '../gradients/pooling-head.js';
import type { FeatureInfo } from '../model/prune/feature-info.js';
import { modelInternals } from '../model/open/model-state.js';
import type { OnnxModel } from '../model/open/open-model.js';
import { readConstants } from '../graph/read-constants.js';
import { readInitializer } from '../model/open/read-initializer.js';
import { WireReader } from '../onnx/wire/wire.js';
import { makeTensor, type Tensor } from '../tensor/tensor.js';

/** Global average pooling and one linear layer. */
export interface PoolingWeights {
  /** The axis of the layer's channels. */
  readonly channelAxis: number;
  readonly channels: number;
  readonly classes: number;
  /** What the mean of a channel counts in the score of a class. */
  readonly weightOf: (channel: number, index: number) => number;
}

/** Reads the weights, if it is proven that the scores are the means of the layer's channels under a linear layer of float32. */
export async function readPoolingHead(
  model: OnnxModel,
  layer: FeatureInfo,
  scores: FeatureInfo,
): Promise<PoolingWeights | undefined> {
  const state = modelInternals.of(model);
  const { values } = state.graph;
  const ends = { layer: values.get(layer.tensor)!, scores: values.get(scores.tensor)! };
  const { dims: layerDims } = layer;
  if (!layerDims) return undefined;
  const head = await state.withSource((source) =>
    findPoolingHead({ ...ends, layerDims }, readConstants(new WireReader(source))),
  );
  if (!head) return undefined;
  const { dtype, dims, data } = await readInitializer(state, head.weight);
  if (dtype !== 'float32') return undefined;
  const [rows, columns] = dims as [number, number];
  const { channelAxis, isTransposed, scale } = head;
  const classes = isTransposed ? rows : columns;
  const stated = scores.dims;
  // What the file leaves open is checked when the logits are read.
  if (stated && (stated.length !== 2 || (typeof stated[1] === 'number' && stated[1] !== classes)))
    return undefined;
  return {
    channelAxis,
    channels: isTransposed ? columns : rows,
    classes,
    weightOf: (channel, index) =>
      scale * data[isTransposed ? index * columns + channel : channel * columns + index]!,
  };
}

/**
 * The gradient of the scores with respect to the layer: at each place of a channel, the weight of the channel in the score divided by
 * the number of places.
 *
 * @param dims - Those of the layer, and of the result.
 * @param seeds - `[N, classes]`: what each logit counts in the score of its row.
 */
export function pooledGradient(
  { channelAxis, channels, classes, weightOf }: PoolingWeights,
  dims: readonly number[],
  seeds: Tensor<'float32'>,
): Tensor<'float32'> {
  const rows = dims[0]!;
  const outer = dims.slice(1, channelAxis).reduce((product, size) => product * size, 1);
  const inner = dims.slice(channelAxis + 1).reduce((product, size) => product * size, 1);
  const gradient = new Float32Array(rows * outer * channels * inner);
  for (let row = 0; row < rows; row++) {
    const slopes = slopesOf(seeds.data.subarray(row * classes, (row + 1) * classes), channels, weightOf);
    for (let place = 0; place < outer; place++)
      for (const [channel, slope] of slopes.entries()) {
        const start = ((row * outer + place) * channels + channel) * inner;
        gradient.fill(slope / (outer * inner), start, start + inner);
      }
  }
  return makeTensor('float32', dims, gradient);
}

/** What the mean of each channel counts in the score of a row. */
function slopesOf(seed: Float32Array, channels: number, weightOf: PoolingWeights['weightOf']): Float64Array {
  const slopes = new Float64Array(channels);
  for (const [index, share] of seed.entries())
    if (share !== 0) for (let c = 0; c < channels; c++) slopes[c]! += share * weightOf(c, index);
  return slopes;
}
