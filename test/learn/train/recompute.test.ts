/** Results that are computed again in the backward pass, instead of being kept. */
import { type Tensor } from 'onnx-tapir';
import { createTrainer } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { tinyResNet } from '../../support/fixtures.js';

const batch = {
  input: {
    dtype: 'float32',
    dims: [2, 3, 64, 64],
    data: Float32Array.from({ length: 2 * 3 * 64 * 64 }, (_, i) => Math.sin(i * 0.37)),
  },
  target: [0, 1],
} as const;

async function train(recompute: readonly string[]): Promise<ReadonlyMap<string, Tensor>> {
  await using trainer = await createTrainer(tinyResNet(), {
    loss: 'cross-entropy',
    optimizer: { kind: 'sgd', lr: 0.1 },
    session: { graphOptimizationLevel: 'disabled' },
    recompute,
  });
  await trainer.step(batch);
  return await trainer.stateDict();
}

describe('a trainer that computes results again', () => {
  it('takes the same step', async () => {
    expect(await train(['layer1', 'layer2', 'layer3'])).toEqual(await train([]));
  });

  it('refuses it where the batch makes the statistics', async () => {
    const given = {
      loss: 'cross-entropy',
      optimizer: 'sgd',
      batchNorm: 'batch',
      recompute: ['layer1'],
    } as const;
    await expect(createTrainer(tinyResNet(), given)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'recompute' },
    });
  });
});
