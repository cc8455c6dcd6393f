/** Factors for channels: by which error they are chosen, and that a product with unscaled weights is the same product. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../../../src/base/random.js';
import {
  roundingOf,
  roundValue,
  roundWeights,
} from '../../../../../src/products/precision/graph/quantize/roundings.js';
import {
  findFactors,
  scaleChannels,
  unscaleWeights,
} from '../../../../../src/products/precision/graph/quantize/smoothing.js';
import { ChannelRange } from '../../../../../src/products/precision/lowering/search/activation-range.js';

const [ROWS, CHANNELS, OUTPUTS] = [400, 16, 12];
const next = createRandom(3);
const normal = (): number => next() + next() + next() - 1.5;

/** Activations of which channel 5 is so many times as large, and the matrix that they are multiplied by. */
function make(times: number): {
  readonly x: Float32Array;
  readonly facts: ChannelRange;
  readonly weights: { readonly data: Float32Array; readonly dims: readonly number[] };
} {
  const x = Float32Array.from(
    { length: ROWS * CHANNELS },
    (_, at) => normal() * (at % CHANNELS === 5 ? times : 1),
  );
  const facts = new ChannelRange(CHANNELS);
  facts.add(x.subarray(0, x.length / 2));
  facts.add(x.subarray(x.length / 2));
  const data = Float32Array.from({ length: CHANNELS * OUTPUTS }, normal);
  return { x, facts, weights: { data, dims: [CHANNELS, OUTPUTS] } };
}

function multiply(x: Float32Array, weights: Float32Array): Float64Array {
  const result = new Float64Array(ROWS * OUTPUTS);
  for (let row = 0; row < ROWS; row++)
    for (let k = 0; k < OUTPUTS; k++)
      for (let j = 0; j < CHANNELS; j++)
        result[row * OUTPUTS + k]! += x[row * CHANNELS + j]! * weights[j * OUTPUTS + k]!;
  return result;
}

/** The mean squared error of a product in 8 bits, with the channels multiplied by the factors. */
function measure({ x, weights }: ReturnType<typeof make>, factors: Float32Array): number {
  const scaled = scaleChannels(x, factors);
  const rounding = roundingOf(Math.min(...scaled), Math.max(...scaled));
  const { values, scales } = roundWeights(
    unscaleWeights({ weights, axis: 1 }, factors),
    1,
    undefined,
    rounding.scale,
  )!;
  const exact = multiply(x, weights.data);
  const found = multiply(
    scaled.map((value) => roundValue(value, rounding)),
    Float32Array.from(values, (level, at) => level * scales[at % OUTPUTS]!),
  );
  return exact.reduce((sum, value, at) => sum + (value - found[at]!) ** 2, 0) / exact.length;
}

const ones = new Float32Array(CHANNELS).fill(1);

describe('findFactors', () => {
  it('makes an outlier channel smaller, and the product in 8 bits much nearer', () => {
    const made = make(60);
    const factors = findFactors(made.facts, [{ weights: made.weights, axis: 1 }])!;
    const others = factors.filter((_, channel) => channel !== 5);
    expect(factors[5]! * 5).toBeLessThan(Math.min(...others));
    expect(measure(made, ones) / measure(made, factors)).toBeGreaterThan(10);
  });

  it('takes the exponent that the errors of the products take, or one as good', () => {
    for (const times of [4, 20, 100, 1000]) {
      const made = make(times);
      const chosen = measure(made, findFactors(made.facts, [{ weights: made.weights, axis: 1 }])!);
      const largest = made.facts.high.map((x, channel) => Math.max(x, -made.facts.low[channel]!));
      const rows = largest.map((_, j) =>
        Math.max(...made.weights.data.subarray(j * OUTPUTS, (j + 1) * OUTPUTS).map(Math.abs)),
      );
      const all = [0.3, 0.4, 0.5, 0.6, 0.7].map((alpha) =>
        measure(
          made,
          largest.map((x, channel) => rows[channel]! ** (1 - alpha) / x ** alpha),
        ),
      );
      expect(chosen / Math.min(...all)).toBeLessThan(1.15);
    }
  });

  it('takes a matrix that lies the other way, and all matrices that read the tensor', () => {
    const { facts, weights } = make(60);
    const across = {
      data: weights.data.map((_, at) => weights.data[(at % CHANNELS) * OUTPUTS + Math.floor(at / CHANNELS)]!),
      dims: [OUTPUTS, CHANNELS],
    };
    const once = findFactors(facts, [{ weights, axis: 1 }])!;
    expect(findFactors(facts, [{ weights: across, axis: 0 }])).toEqual(once);
    const larger = { ...weights, data: weights.data.map((x, at) => (at < OUTPUTS ? 50 * x : x)) };
    const both = findFactors(facts, [
      { weights, axis: 1 },
      { weights: larger, axis: 1 },
    ])!;
    expect(both[0]! / both[1]!).toBeGreaterThan(1.5 * (once[0]! / once[1]!));
  });

  it('gives finite factors or none for channels and weights of zeros', () => {
    const zeros = new ChannelRange(3);
    zeros.add(new Float32Array(9));
    const some = new ChannelRange(3);
    some.add(Float32Array.of(0, 1, -500, 0, 2, 400));
    for (const facts of [zeros, some])
      for (const values of [new Float32Array(6), Float32Array.of(1, 2, 0, 0, 3, 4)]) {
        const factors = findFactors(facts, [{ weights: { data: values, dims: [3, 2] }, axis: 1 }]) ?? [1];
        for (const factor of factors) expect(factor > 0 && Number.isFinite(factor)).toBe(true);
      }
  });
});

describe('unscaleWeights', () => {
  it('gives the same products as before, to the last digits', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.01, max: 100, noNaN: true }), {
          minLength: CHANNELS,
          maxLength: CHANNELS,
        }),
        (given) => {
          const { x, weights } = make(9);
          const factors = Float32Array.from(given);
          const exact = multiply(x, weights.data);
          const scaled = multiply(
            scaleChannels(x, factors),
            unscaleWeights({ weights, axis: 1 }, factors).data,
          );
          for (const [at, value] of exact.entries()) expect(Math.abs(scaled[at]! - value)).toBeLessThan(1e-4);
        },
      ),
      { numRuns: 20, seed: 5 },
    );
  });
});
