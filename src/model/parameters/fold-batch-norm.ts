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
  { axis, groups }: ChannelLayout,
  epsilon: number,
): { readonly weight: Float64Array; readonly bias: Float64Array } {
  const scale = variance.map((value, c) => (gamma?.[c] ?? 1) / Math.sqrt(value + epsilon));
  const shifted = mean.map((value, c) => ((bias?.[c] ?? 0) - value) * scale[c]! + (beta?.[c] ?? 0));
  const inner = dims.slice(axis + 1).reduce((product, size) => product * size, 1);
  const [rows, columns] = [dims[0]!, dims[axis]!];
  // A transposed convolution has its weight as [in, out / groups, …].
  const channelOf =
    axis === 0
      ? (i: number): number => Math.floor(i / inner)
      : (i: number): number =>
          Math.floor(Math.floor(i / (inner * columns)) / (rows / groups)) * columns +
          (Math.floor(i / inner) % columns);
  return { weight: weight.map((value, i) => value * scale[channelOf(i)]!), bias: shifted };
}
