/** Levels of 8 bits: for ranges of activations, and for constant weights. Pure numbers. */
import { roundHalfEven } from '../../../../base/round-half-even.js';

/** How a tensor of activations becomes 8-bit: a level stands for `(level - zero) × scale`. */
export interface Rounding {
  readonly scale: number;
  /** The level of 0: from 0 to 255, or 0 if levels are signed. */
  readonly zero: number;
  /** Whether levels go from -128 to 127, not from 0 to 255. */
  readonly isSigned: boolean;
  /** What the channels on the last axis are multiplied by before they are rounded. */
  readonly factors?: Float32Array;
}

/** Whole numbers that stand for a constant, with a scale per channel. */
export interface RoundedConstant<Values extends Int8Array | Int32Array> {
  readonly values: Values;
  readonly dims: readonly number[];
  readonly axis: number;
  readonly scales: Float32Array;
}

/** The smallest scale: products of two such scales are still normal numbers of float32. */
const TINY = 1e-15;
/** Signed levels may be this much coarser than unsigned ones: engines are faster without a level for zero. */
const COARSER = 1.2;

/** The levels that cover a range. Both ends may have any sign; 0 always has a level. */
export function roundingOf(low: number, high: number): Rounding {
  const [least, most] = [Math.min(0, low), Math.max(0, high)];
  const unsigned = Math.fround(Math.max(TINY, (most - least) / 255));
  if (least === 0) return { scale: unsigned, zero: 0, isSigned: false };
  const signed = Math.fround(Math.max(TINY, -least / 128, most / 127));
  if (signed <= COARSER * unsigned) return { scale: signed, zero: 0, isSigned: true };
  return {
    scale: unsigned,
    zero: Math.max(0, Math.min(255, roundHalfEven(-least / unsigned))),
    isSigned: false,
  };
}

/** What a value becomes. */
export function roundValue(x: number, { scale, zero, isSigned }: Rounding): number {
  const [least, most] = isSigned ? [-128, 127] : [0, 255];
  const level = Math.max(least, Math.min(most, roundHalfEven(Math.fround(x / scale)) + zero));
  return Math.fround((level - zero) * scale);
}

/** The largest level of a weight. */
export const WEIGHT_LEVELS = 127;
/**
 * Biases stay well inside int32, because engines add products to them. The final range of activations may be a hundred times narrower than
 * the one that weights are rounded for.
 */
const MOST_BIAS = 2 ** 24;
const MOST_INT32 = 2 ** 31 - 1;

/** A float32 constant, row-major. */
export interface FloatConstant {
  readonly data: Float32Array;
  readonly dims: readonly number[];
}

/**
 * Rounds weights to 8 bits, with a scale per channel: its largest magnitude is 127.
 *
 * @param bias - The bias of the layer; a channel whose bias would overflow gets a larger scale.
 * @param inputScale - The scale of the activations that the layer reads.
 * @returns Undefined if an element is not finite.
 */
export function roundWeights(
  { data, dims }: FloatConstant,
  axis: number,
  bias: Float32Array | undefined,
  inputScale: number,
): RoundedConstant<Int8Array> | undefined {
  const channels = dims[axis]!;
  const inner = dims.slice(axis + 1).reduce((product, size) => product * size, 1);
  const scales = new Float32Array(channels);
  for (let at = 0; at < data.length; at++) {
    const magnitude = Math.abs(data[at]!);
    if (!Number.isFinite(magnitude)) return undefined;
    const channel = Math.floor(at / inner) % channels;
    if (magnitude > scales[channel]!) scales[channel] = magnitude;
  }
  for (let channel = 0; channel < channels; channel++) {
    const added = Math.abs(bias?.[channel] ?? 0);
    if (!Number.isFinite(added)) return undefined;
    scales[channel] = Math.max(TINY, scales[channel]! / WEIGHT_LEVELS, added / inputScale / MOST_BIAS);
  }
  const values = new Int8Array(data.length);
  for (let at = 0; at < data.length; at++) {
    const level = roundHalfEven(data[at]! / scales[Math.floor(at / inner) % channels]!);
    values[at] = Math.max(-WEIGHT_LEVELS, Math.min(WEIGHT_LEVELS, level));
  }
  return { values, dims, axis, scales };
}

/** Rounds a bias in steps of the layer's products, as integer kernels add it. */
export function roundBias(
  bias: Float32Array,
  inputScale: number,
  scales: Float32Array,
): RoundedConstant<Int32Array> {
  const steps = scales.map((scale) => inputScale * scale);
  const values = Int32Array.from(bias, (x, channel) =>
    Math.max(-MOST_INT32, Math.min(MOST_INT32, roundHalfEven(x / steps[channel]!))),
  );
  return { values, dims: [bias.length], axis: 0, scales: steps };
}
