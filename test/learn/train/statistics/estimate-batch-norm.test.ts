/** The example that torch's users discuss: BatchNorm2d(3, momentum=1.0) over two devices, whose batches have other moments. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Options } from 'onnx-tapir';
import { estimateBatchNorm, type EstimateOptions } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import type { Tensor } from '../../../../src/onnx/tensor/tensor.js';
import { sharedFixtures, sharedNote } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';
import { normNode, normWeights } from '../../../support/norm-graphs.js';
import { statisticsFolder } from '../../../support/statistics.js';
import { normalNumbers } from '../../../support/zoo.js';

interface Channels {
  readonly mean: readonly number[];
  readonly var: readonly number[];
}

interface Forum {
  readonly seed: string;
  readonly shape: readonly [number, number, number, number];
  readonly device0: Channels;
  readonly whole: Channels;
  readonly cumulative: Channels;
  readonly momentum_0_1: { readonly device0: Channels; readonly whole: Channels };
  readonly both_batches_after_each_other_momentum_0_1: Channels;
  readonly float32_trap: { readonly values: number; readonly var_population: number };
  readonly uneven: readonly {
    readonly sizes: readonly number[];
    readonly combined_mean: readonly number[];
    readonly combined_var_unbiased: readonly number[];
  }[];
}

describe.skipIf(sharedFixtures === undefined)(
  `BatchNorm2d(3, momentum=1.0) over two devices${sharedNote}`,
  () => {
    const forum = (
      sharedFixtures === undefined
        ? {}
        : JSON.parse(readFileSync(join(statisticsFolder, 'forum.json'), 'utf8'))
    ) as Forum;
    const model = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3, 'h', 'w'] }],
      outputs: [{ name: 'y', dims: ['n', 3, 'h', 'w'] }],
      nodes: [normNode('bn', 'x', 'y')],
      initializers: { ...normWeights('bn', 3), 'bn.running_mean': [0, 0, 0], 'bn.running_var': [1, 1, 1] },
    });
    const parts = (): Float32Array[] => {
      const [n, ...inner] = forum.shape;
      const count = inner.reduce((product, size) => product * size, n);
      return [
        normalNumbers(`${forum.seed}.a`, count).map((z) => Math.fround(z * 12 + 7)),
        normalNumbers(`${forum.seed}.b`, count).map((z) => Math.fround(z * 5 - 9)),
      ].map((values) => Float32Array.from(values));
    };
    const tensor = (...data: Float32Array[]): Tensor<'float32'> => {
      const joined = Float32Array.from(data.flatMap((part) => Array.from(part)));
      return { dtype: 'float32', dims: [joined.length / 768, 3, 16, 16], data: joined };
    };
    const whole = (): Tensor<'float32'> => tensor(...parts());
    const devices = ['cpu:0', 'cpu:1'] as const;

    async function expectStatistics(
      source: Tensor<'float32'>[],
      options: Options<EstimateOptions>,
      { mean, var: variance }: Channels,
    ): Promise<void> {
      const { layers } = await estimateBatchNorm(model, source, options);
      const found = layers[0]!;
      mean.forEach((value, c) => expect(found.mean[c]).toBeCloseTo(value, 4));
      variance.forEach((value, c) => expect(found.variance[c]! / value).toBeCloseTo(1, 5));
    }

    it('keeps the first device’s statistics in DataParallel, and those of both in SyncBatchNorm', async () => {
      await expectStatistics([whole()], { mode: 'device0', momentum: 1, devices }, forum.device0);
      await expectStatistics([whole()], { mode: 'synced', momentum: 1, devices }, forum.whole);
      await expectStatistics([whole()], { mode: 'device0', devices }, forum.momentum_0_1.device0);
      await expectStatistics([whole()], { mode: 'synced', devices }, forum.momentum_0_1.whole);
    });

    it('averages batches in turn, or cumulatively', async () => {
      const [a, b] = parts();
      const batches = [tensor(a!), tensor(b!)];
      await expectStatistics(
        batches,
        { mode: 'momentum', devices },
        forum.both_batches_after_each_other_momentum_0_1,
      );
      await expectStatistics(batches, { mode: 'momentum', momentum: 'cumulative' }, forum.cumulative);
    });

    it('combines uneven parts exactly', async () => {
      const { data } = whole();
      for (const { sizes, combined_mean: mean, combined_var_unbiased: unbiased } of forum.uneven) {
        let start = 0;
        const batches = sizes.map((size) => {
          const part = data.slice(start * 768, (start + size) * 768);
          start += size;
          return tensor(part);
        });
        const count = 768 * 4;
        await expectStatistics(
          batches,
          { mode: 'precise' },
          { mean, var: unbiased.map((value) => (value * (count - 1)) / count) },
        );
      }
    });

    it('keeps all digits beside a mean that is a thousand times larger', async () => {
      const { values, var_population: expected } = forum.float32_trap;
      const data = Float32Array.from(normalNumbers(`${forum.seed}.c`, values), (z) => z + 1000);
      const one = modelBytes({
        inputs: [{ name: 'x', dims: ['n', 1, 'w'] }],
        outputs: [{ name: 'y', dims: ['n', 1, 'w'] }],
        nodes: [normNode('bn', 'x', 'y')],
        initializers: normWeights('bn', 1),
      });
      for (const rows of [1, 10]) {
        const dims = [rows, 1, values / rows];
        const { layers } = await estimateBatchNorm(one, [{ dims, data }], { mode: 'adabn' });
        expect(layers[0]!.variance[0]! / expected).toBeCloseTo(1, 5);
        const mean = data.reduce((sum, value) => sum + value, 0) / values;
        expect(layers[0]!.mean[0]).toBeCloseTo(mean, 8);
      }
    });
  },
);
