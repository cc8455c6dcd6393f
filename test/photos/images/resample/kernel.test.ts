/** Weights of the resampling, and their packed form. The pixels: ../preprocess.golden.test.ts. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  kernelOf,
  PRECISION_BITS,
  type Kernel,
  type Sampling,
} from '../../../../src/photos/images/resample/kernel.js';
import { packedKernelOf } from '../../../../src/photos/images/resample/simd-layout.js';
import { BICUBIC, BILINEAR, samplings } from '../../../support/samplings.js';

const ONE = 1 << PRECISION_BITS;
const whole = (inSize: number, outSize: number, sampling: Sampling): Kernel =>
  kernelOf({ inSize, outSize, span: inSize, from: 0, to: outSize, ...sampling });

const side = fc.integer({ min: 1, max: 300 });

describe('kernelOf', () => {
  it('halves with a triangle of four, cut off at the edges', () => {
    const { first, counts, weights, stride } = whole(8, 4, BILINEAR);
    expect([...first]).toEqual([0, 1, 3, 5]);
    expect([...counts]).toEqual([3, 4, 4, 3]);
    const row = (position: number): number[] =>
      [...weights.subarray(position * stride, position * stride + counts[position]!)].map((w) => w / ONE);
    expect(row(1)).toEqual([0.125, 0.375, 0.375, 0.125].map((w) => expect.closeTo(w, 6)));
    expect(row(0)).toEqual([3 / 7, 3 / 7, 1 / 7].map((w) => expect.closeTo(w, 6)));
  });

  it('reads only inputs that exist, with weights that sum to 1', () => {
    fc.assert(
      fc.property(side, side, samplings, (inSize, outSize, sampling) => {
        const { first, counts, weights, stride } = whole(inSize, outSize, sampling);
        for (let position = 0; position < outSize; position++) {
          expect(first[position]).toBeGreaterThanOrEqual(position === 0 ? 0 : first[position - 1]!);
          expect(counts[position]).toBeGreaterThanOrEqual(1);
          expect(first[position]! + counts[position]!).toBeLessThanOrEqual(inSize);
          const own = weights.subarray(position * stride, position * stride + counts[position]!);
          const sum = own.reduce((total, weight) => total + weight, 0);
          // Each weight is rounded.
          expect(Math.abs(sum - ONE)).toBeLessThanOrEqual(
            counts[position]! * (sampling.resampler === 'torch' ? 256 : 1),
          );
        }
      }),
    );
  });

  it('gives a part of the positions the weights that they have in the whole', () => {
    const shape = { inSize: 100, outSize: 33, span: 100, ...BICUBIC };
    const all = kernelOf({ ...shape, from: 0, to: 33 });
    const part = kernelOf({ ...shape, from: 10, to: 20 });
    expect([...part.first]).toEqual([...all.first.subarray(10, 20)]);
    expect([...part.weights]).toEqual([...all.weights.subarray(10 * all.stride, 20 * all.stride)]);
  });

  it('keeps the last eight, unless they are large', () => {
    const used = whole(500, 224, BILINEAR);
    expect(whole(500, 224, BILINEAR)).toBe(used);
    for (let size = 100; size < 108; size++) whole(size, 50, BILINEAR);
    expect(whole(500, 224, BILINEAR)).not.toBe(used);
    expect(whole(70_000, 3, BILINEAR)).not.toBe(whole(70_000, 3, BILINEAR));
  });
});

describe('packedKernelOf', () => {
  it('splits each weight into halves that give it back, in pairs padded with 0', () => {
    fc.assert(
      fc.property(side, side, samplings, (inSize, outSize, sampling) => {
        const kernel = whole(inSize, outSize, sampling);
        const { pairs, weights } = packedKernelOf(kernel);
        const halves = new Int16Array(weights.buffer);
        expect(pairs).toBe(Math.ceil(Math.max(...kernel.counts) / 2));
        for (let position = 0; position < outSize; position++) {
          for (let tap = 0; tap < pairs * 2; tap++) {
            const at = (position * pairs + (tap >> 1)) * 4 + (tap & 1);
            const weight =
              tap < kernel.counts[position]! ? kernel.weights[position * kernel.stride + tap]! : 0;
            expect(halves[at + 2]! * 65_536 + halves[at]!).toBe(weight);
          }
        }
      }),
      { numRuns: 50 },
    );
  });

  it('is made once per kernel', () => {
    const kernel = whole(90, 30, BILINEAR);
    expect(packedKernelOf(kernel)).toBe(packedKernelOf(kernel));
  });
});
