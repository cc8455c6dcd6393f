/** The float32 value of each byte, with each library's rounding: scaling and normalising is looking up. */
import type { ChannelNumbers, TransformOptions } from './transform-options.js';

const f32 = Math.fround;

/** The options that tell the value of a byte. */
export type ValueOptions = Pick<
  TransformOptions,
  'scale' | 'offset' | 'mean' | 'std' | 'secondStd' | 'arithmetic'
>;

/** Computes the value of each channel (3, or 1 for grey) and byte: `channels × 256` floats. */
export function createValueTable(options: ValueOptions, channels: number): Float32Array {
  const table = new Float32Array(channels * 256);
  for (let channel = 0; channel < channels; channel++) {
    const valueOf = valueFunction(options, channel);
    for (let byte = 0; byte < 256; byte++) table[channel * 256 + byte] = valueOf(byte);
  }
  return table;
}

function valueFunction(options: ValueOptions, channel: number): (byte: number) => number {
  const { scale, offset, mean, std, arithmetic } = options;
  if (arithmetic !== 'fused' || offset !== 0 || !mean || !std) {
    const scaled = scaling(options);
    return (byte) => normalizeScaled(options, channel, scaled(byte));
  }
  const inverse = f32(1 / scale);
  const [fusedMean, fusedStd] = [mean, std].map((numbers) => f32(f32(numbers[channel]!) * inverse));
  return (byte) => divideAgain(options, channel, f32(f32(byte - fusedMean!) / fusedStd!));
}

function scaling({ scale, arithmetic }: ValueOptions): (byte: number) => number {
  const [factor, divisor] = [f32(scale), f32(1 / scale)];
  if (arithmetic === 'torchvision') return (byte) => f32(byte / divisor);
  return arithmetic === 'fused' ? (byte) => f32(byte * factor) : (byte) => f32(byte * scale);
}

/** Everything after the scaling, in float32 steps. */
export function normalizeScaled(options: ValueOptions, channel: number, scaled: number): number {
  const { offset, mean, std } = options;
  const value = f32(scaled - offset);
  const normalized = mean && std ? f32(f32(value - f32(mean[channel]!)) / f32(std[channel]!)) : value;
  return divideAgain(options, channel, normalized);
}

function divideAgain({ secondStd }: ValueOptions, channel: number, value: number): number {
  return secondStd ? f32(value / f32(secondStd[channel]!)) : value;
}

/** Whether normalising with a mean and std, step by step from values of 0 to 1, gives every value of a table. */
export function isNormalizedBy(
  table: Float32Array,
  mean: readonly number[],
  std: readonly number[],
): boolean {
  const numbers = { mean, std } as { readonly mean: ChannelNumbers; readonly std: ChannelNumbers };
  const plain = {
    scale: 1 / 255,
    offset: 0,
    ...numbers,
    secondStd: null,
    arithmetic: 'torchvision',
  } as const;
  const other = createValueTable(plain, table.length / 256);
  return table.every((value, i) => value === other[i]);
}
