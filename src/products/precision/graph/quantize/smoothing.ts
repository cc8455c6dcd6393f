/**
 * Moves large channels of activations into the weights that read them, so that both round well (SmoothQuant, Xiao and others, 2022).
 * Pure numbers.
 */
import { roundingOf, WEIGHT_LEVELS, type FloatConstant } from './roundings.js';

/** What a tensor holds on photos, channel by channel of its last axis. */
export interface ChannelFacts {
  readonly low: Float32Array;
  readonly high: Float32Array;
  /** Means of squares. */
  readonly squares: Float64Array;
}

/** A matrix that a tensor is multiplied by. */
export interface ReadMatrix {
  readonly weights: FloatConstant;
  /** The axis of the output channels. */
  readonly axis: number;
}

/** How much of the difference between channels goes into the weights. Above 0.7, other photos leave the ranges. */
const EXPONENTS = [0.3, 0.4, 0.5, 0.6, 0.7];
/** Channels count as at least this share of the largest one: those of other photos may be larger. */
const LEAST_SHARE = 1e-5;

/** The factors for channels that most lower the error which rounding activations and weights adds to products; undefined if none lower it. */
export function findFactors(facts: ChannelFacts, matrices: readonly ReadMatrix[]): Float32Array | undefined {
  const sums = sumRows(facts.low.length, matrices);
  let best: Float32Array | undefined;
  let least = errorOf(new Float32Array(facts.low.length).fill(1), facts, matrices, sums.squares);
  for (const exponent of EXPONENTS) {
    const factors = factorsOf(facts, sums.largest, exponent);
    const error = errorOf(factors, facts, matrices, sums.squares);
    if (error < least) [best, least] = [factors, error];
  }
  return best;
}

/** The factors of SmoothQuant's rule, around 1. */
function factorsOf({ low, high }: ChannelFacts, weights: Float32Array, exponent: number): Float32Array {
  const activations = low.map((x, channel) => Math.max(-x, high[channel]!));
  const [ofActivations, ofWeights] = [logsOf(activations), logsOf(weights)];
  const logs = ofActivations.map((x, channel) => (1 - exponent) * ofWeights[channel]! - exponent * x);
  const mean = logs.reduce((sum, x) => sum + x, 0) / logs.length;
  return Float32Array.from(logs, (x) => Math.exp(x - mean));
}

function logsOf(magnitudes: Float32Array): Float64Array {
  const least = magnitudes.reduce((a, b) => Math.max(a, b), 0) * LEAST_SHARE || 1;
  return Float64Array.from(magnitudes, (x) => Math.log(Math.max(x, least)));
}

/** The largest magnitude, and the sum of squares, of the weights that read each channel. */
function sumRows(
  channels: number,
  matrices: readonly ReadMatrix[],
): { readonly largest: Float32Array; readonly squares: Float64Array } {
  const [largest, squares] = [new Float32Array(channels), new Float64Array(channels)];
  for (const matrix of matrices)
    forEachWeight(matrix, (x, channel) => {
      largest[channel] = Math.max(largest[channel]!, Math.abs(x));
      squares[channel]! += x * x;
    });
  return { largest, squares };
}

/** The expected sum of squared errors of the products, with a rounding error of step² / 12 for each element. */
function errorOf(
  factors: Float32Array,
  { low, high, squares }: ChannelFacts,
  matrices: readonly ReadMatrix[],
  weightSquares: Float64Array,
): number {
  const sum = (of: (factor: number, channel: number) => number): number =>
    factors.reduce((total, factor, channel) => total + of(factor, channel), 0);
  const [least, most] = [low, high].map((ends) => ends.map((x, channel) => x * factors[channel]!));
  const step = roundingOf(
    least!.reduce((a, b) => Math.min(a, b)),
    most!.reduce((a, b) => Math.max(a, b)),
  ).scale;
  const ofActivations = step ** 2 * sum((factor, channel) => weightSquares[channel]! / factor ** 2);
  const power = sum((factor, channel) => squares[channel]! * factor ** 2);
  let ofWeights = 0;
  for (const matrix of matrices) {
    const largest = new Float64Array(matrix.weights.dims[matrix.axis]!);
    forEachWeight(matrix, (x, channel, output) => {
      largest[output] = Math.max(largest[output]!, Math.abs(x) / factors[channel]!);
    });
    ofWeights += largest.reduce((total, x) => total + (x / WEIGHT_LEVELS) ** 2, 0) * power;
  }
  return (ofActivations + ofWeights) / 12;
}

/** Multiplies the channels of the last axis by the factors. */
export function scaleChannels(data: Float32Array, factors: Float32Array): Float32Array {
  return data.map((x, at) => x * factors[at % factors.length]!);
}

/** The weights for activations whose channels are multiplied by the factors. */
export function unscaleWeights({ weights, axis }: ReadMatrix, factors: Float32Array): FloatConstant {
  const data = new Float32Array(weights.data.length);
  forEachWeight({ weights, axis }, (x, channel, _output, at) => {
    data[at] = x / factors[channel]!;
  });
  return { data, dims: weights.dims };
}

function forEachWeight(
  { weights: { data, dims }, axis }: ReadMatrix,
  visit: (x: number, channel: number, output: number, at: number) => void,
): void {
  const [rows, columns] = dims as [number, number];
  for (let row = 0, at = 0; row < rows; row++)
    for (let column = 0; column < columns; column++, at++)
      if (axis === 1) visit(data[at]!, row, column, at);
      else visit(data[at]!, column, row, at);
}
