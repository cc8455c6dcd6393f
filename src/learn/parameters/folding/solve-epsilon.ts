/** The epsilon of a folded norm, solved from a file's weights: W_file = W · gamma / sqrt(var + eps). */
import { channelOf, type ChannelLayout, type FoldedTensors } from './fold-batch-norm.js';

/** The epsilons that give a file's weights, up to the rounding of the arithmetic. */
export interface EpsilonRange {
  readonly low: number;
  readonly high: number;
  /** False if all weights are zero, as gamma is: any epsilon gives those. */
  readonly isProof: boolean;
}

/** Whether a range has an epsilon. */
export function contains({ low, high }: EpsilonRange, epsilon: number): boolean {
  return epsilon >= low && epsilon <= high;
}

/** The weights of a layer as the file has them, in torch's layout. */
export interface FoldedWeights {
  readonly weight: Float64Array;
  /** Undefined if the exporter dropped a bias of zeros. */
  readonly bias: Float64Array | undefined;
}

/** The relative rounding of a dtype, and its smallest step. */
export interface Rounding {
  readonly relative: number;
  readonly step: number;
}

/**
 * What networks state: torch's and TensorFlow's defaults, then those of single networks. A solved epsilon is one of them if they lie
 * within its range.
 */
const USUAL_EPSILONS: readonly number[] = [1e-5, 1e-3, 1e-6, 1e-4, 2e-5, 4e-5, 1e-2, 1e-7, 1e-8, 1e-12];
/** Exporters fold in float32: var + eps, the root, the quotient and the product each round. */
const ARITHMETIC = 6 * 2 ** -24;
/** No network has a larger one. */
const LARGEST = 0.1;

/** Solves the epsilon; undefined if none gives the file's weights, which are rounded as its dtype is. */
export function solveEpsilon(
  file: FoldedWeights,
  tensors: FoldedTensors,
  layout: ChannelLayout,
  rounding: Rounding,
): EpsilonRange | undefined {
  const { weight, dims, gamma, variance } = tensors;
  const others = [gamma, tensors.beta, tensors.mean, tensors.bias, file.bias];
  if (file.weight.length !== weight.length) return undefined;
  if (others.some((values) => values && values.length !== variance.length)) return undefined;
  const channel = channelOf(dims, layout);
  const relative = ARITHMETIC + rounding.relative;
  let [low, high] = [0, LARGEST];
  const variances = new Set<number>();
  for (const [i, folded] of file.weight.entries()) {
    const c = channel(i);
    const unscaled = weight[i]! * (gamma?.[c] ?? 1);
    if (unscaled === 0 || Math.abs(folded) <= rounding.step) {
      const least = Math.abs(unscaled) / Math.sqrt(variance[c]! + high);
      if (Math.abs(folded) > rounding.step || least > 3 * rounding.step) return undefined;
      continue;
    }
    if (folded > 0 !== unscaled > 0) return undefined;
    const sum = (unscaled / folded) ** 2;
    const error = 2 * sum * (relative + rounding.step / Math.abs(folded));
    low = Math.max(low, sum - error - variance[c]!);
    high = Math.min(high, sum + error - variance[c]!);
    if (!(low <= high)) return undefined;
    variances.add(variance[c]!);
  }
  if (!fitsBias(file.bias, tensors, low, high, relative)) return undefined;
  const range = { low, high, isProof: variances.size > 0 };
  // A single variance has some epsilon by accident.
  return variances.size === 1 && usualIn(range).length === 0 ? undefined : range;
}

/** The usual epsilons of a range. */
export function usualIn(range: EpsilonRange): readonly number[] {
  return USUAL_EPSILONS.filter((epsilon) => contains(range, epsilon));
}

function fitsBias(
  inFile: Float64Array | undefined,
  { bias, gamma, beta, mean, variance }: FoldedTensors,
  low: number,
  high: number,
  relative: number,
): boolean {
  return mean.every((value, c) => {
    const sum = variance[c]! + (low + high) / 2;
    const scale = (gamma?.[c] ?? 1) / Math.sqrt(sum);
    const own = bias?.[c] ?? 0;
    const offset = beta?.[c] ?? 0;
    const spread = (high - low) / (2 * sum) + 2 * relative;
    const error = (Math.abs(own) + Math.abs(value)) * Math.abs(scale) * spread + Math.abs(offset) * relative;
    return Math.abs((inFile?.[c] ?? 0) - ((own - value) * scale + offset)) <= error + Number.MIN_VALUE;
  });
}
