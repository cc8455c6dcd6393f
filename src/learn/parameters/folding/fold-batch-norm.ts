/** BatchNorm folded into the layer in front of it, in float64, as exporters do it. */

/** The tensors of a layer and of the norm after it. Absent ones are 1 (`gamma`) or 0. */
export interface FoldedTensors {
  /** In torch's layout. */
  readonly weight: Float64Array;
  readonly dims: readonly number[];
  readonly bias: Float64Array | undefined;
  readonly gamma: Float64Array | undefined;
  readonly beta: Float64Array | undefined;
  readonly mean: Float64Array;
  readonly variance: Float64Array;
}

/** How output channels lie in a weight. */
export interface ChannelLayout {
  /** The axis of output channels in torch's layout: 1 for a transposed convolution, else 0. */
  readonly axis: number;
  readonly groups: number;
}

/** `weight · s` and `(bias − mean) · s + beta`, with `s = gamma / sqrt(variance + epsilon)`. */
export function foldBatchNorm(
  { weight, dims, bias, gamma, beta, mean, variance }: FoldedTensors,
  layout: ChannelLayout,
  epsilon: number,
): { readonly weight: Float64Array; readonly bias: Float64Array } {
  const scale = variance.map((value, c) => (gamma?.[c] ?? 1) / Math.sqrt(value + epsilon));
  const shifted = mean.map((value, c) => ((bias?.[c] ?? 0) - value) * scale[c]! + (beta?.[c] ?? 0));
  const channel = channelOf(dims, layout);
  return { weight: weight.map((value, i) => value * scale[channel(i)]!), bias: shifted };
}

/** The output channel of each element of a weight. */
export function channelOf(dims: readonly number[], { axis, groups }: ChannelLayout): (i: number) => number {
  const inner = dims.slice(axis + 1).reduce((product, size) => product * size, 1);
  const [rows, columns] = [dims[0]!, dims[axis]!];
  if (axis === 0) return (i) => Math.floor(i / inner);
  // A transposed convolution has its weight as [in, out / groups, …].
  return (i) =>
    Math.floor(Math.floor(i / (inner * columns)) / (rows / groups)) * columns +
    (Math.floor(i / inner) % columns);
}
