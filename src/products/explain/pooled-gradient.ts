/** The gradient of a layer in front of a pooling head, which is known without a backward pass. */
import type { PoolingWeights } from '../../run/model/read-pooling-head.js';
import { makeTensor, type Tensor } from '../../onnx/tensor/tensor.js';

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
