/** A process's indices against torch's, and each index exactly once. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { distributedSampler } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { MersenneTwister } from '../../../../src/datasets/sources/sampling/distributed-sampler.js';
import { fixturePath } from '../../../support/fixtures.js';

interface SamplerCase {
  readonly id: string;
  readonly kind: string;
  readonly input: {
    readonly n: number;
    readonly world: number;
    readonly rank: number;
    readonly shuffle: boolean;
    readonly seed: number;
    readonly epoch: number;
    readonly drop_last: boolean;
  };
  readonly result?: {
    readonly indices?: readonly number[];
    readonly num_samples: number;
    readonly first64?: readonly number[];
    readonly last64?: readonly number[];
    readonly sha256?: string;
  };
}

const golden = JSON.parse(readFileSync(fixturePath('parallel/cases.json'), 'utf8')) as {
  cases: SamplerCase[];
};
const cases = golden.cases.filter(({ kind }) => kind === 'sampler');

function sample({ input }: SamplerCase): Uint32Array {
  const { n, world, drop_last: dropLast, ...rest } = input;
  return distributedSampler(n, { ...rest, worldSize: world, dropLast, pad: 'torch' });
}

describe('distributedSampler', () => {
  it('has cases of every kind', () => {
    expect(cases.length).toBeGreaterThanOrEqual(18);
    expect(cases.some(({ input }) => input.shuffle && input.epoch > 0)).toBe(true);
    expect(cases.some(({ result }) => result === undefined)).toBe(true);
  });

  it.each(cases)('gives torch’s indices, $id: $input', (one) => {
    const { result } = one;
    if (!result) {
      expect(() => sample(one)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }) as Error);
      return;
    }
    const indices = sample(one);
    expect(indices.length).toBe(result.num_samples);
    if (result.indices) expect([...indices]).toEqual(result.indices);
    else {
      expect(Array.from(indices.slice(0, 64))).toEqual(result.first64);
      expect(Array.from(indices.slice(-64))).toEqual(result.last64);
      expect(createHash('sha256').update(indices).digest('hex')).toBe(result.sha256);
    }
  });

  it('gives each index to one process, once, unless told otherwise', () => {
    fc.assert(
      fc.property(fc.nat(200), fc.integer({ min: 1, max: 9 }), fc.boolean(), (length, worldSize, shuffle) => {
        const all = Array.from({ length: worldSize }, (_, rank) =>
          distributedSampler(length, { rank, worldSize, shuffle, seed: 3 }),
        );
        const sizes = all.map((indices) => indices.length);
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
        expect(all.flatMap((indices) => Array.from(indices)).toSorted((a, b) => a - b)).toEqual(
          Array.from({ length }, (_, index) => index),
        );
      }),
    );
  });

  it('leaves out the same few with dropLast, padded or not', () => {
    for (const rank of [0, 1, 2, 3])
      expect(distributedSampler(10, { rank, worldSize: 4, dropLast: true })).toEqual(
        distributedSampler(10, { rank, worldSize: 4, dropLast: true, pad: 'torch' }),
      );
    expect(distributedSampler(3, { rank: 0, worldSize: 4, dropLast: true })).toEqual(new Uint32Array());
  });

  it.each([
    { rank: 4 },
    { rank: -1 },
    { worldSize: 0 },
    { seed: -1 },
    { epoch: 0.5 },
    { pad: 'wrap' },
    { shuffle: 1 },
    { world: 4 },
  ])('refuses %o', (wrong) => {
    const options = { rank: 0, worldSize: 4, ...wrong } as { rank: number; worldSize: number };
    expect(() => distributedSampler(10, options)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }) as Error,
    );
  });

  it('refuses lengths that torch shuffles in another way', () => {
    const options = { rank: 0, worldSize: 1 };
    expect(() => distributedSampler(214_748_364, options)).toThrow(/from 0 to 214748363/);
    expect(() => distributedSampler(-1, options)).toThrow(/length/);
  });
});

describe('MersenneTwister', () => {
  it('gives the numbers of the reference, mt19937ar with seed 5489', () => {
    const random = new MersenneTwister(5489);
    const numbers = Array.from({ length: 10_000 }, () => random.next());
    // The C++ standard states the ten-thousandth.
    expect([numbers[0], numbers[9999]]).toEqual([3_499_211_612, 4_123_659_995]);
  });
});
