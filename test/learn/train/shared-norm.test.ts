/** A norm that runs twice with one set of statistics: both runs update it, as in torch. */
import { type Tensor } from 'onnx-tapir';
import { createTrainer } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { modelBytes } from '../../support/graphs.js';
import { momentsOf, normNode, normWeights, rows } from '../../support/norm-graphs.js';

const DIMS = [4, 2, 3];
const before = { running_mean: [0.5, -0.25], running_var: [1.5, 0.75] };

const model = modelBytes({
  inputs: [{ name: 'x', dims: ['n', 2, 3] }],
  outputs: [{ name: 'y', dims: ['n', 2, 3] }],
  nodes: [normNode('bn', 'x', 'a'), { ...normNode('bn', 'a', 'y'), name: 'again' }],
  initializers: {
    ...normWeights('bn', 2),
    'bn.running_mean': before.running_mean,
    'bn.running_var': before.running_var,
  },
});

/** What the norm makes of a batch in training mode. */
function normalise(x: Tensor<'float32'>): Tensor<'float32'> {
  const { mean, variance } = momentsOf([x]);
  const data = x.data.map((value, i) => {
    const c = Math.floor(i / DIMS[2]!) % 2;
    return ((value - mean[c]!) / Math.sqrt(variance[c]! + 1e-5)) * (1 + c / 2) - c / 4;
  });
  return { ...x, data };
}

describe('a norm that runs twice', () => {
  it('is trained as one, and both runs update its statistics', async () => {
    const x = rows(DIMS);
    const batches = [x, normalise(x)].map((one) => momentsOf([one]));
    const updated = (start: readonly number[], latest: (batch: (typeof batches)[0], c: number) => number) =>
      start.map((value, c) => batches.reduce((kept, batch) => 0.9 * kept + 0.1 * latest(batch, c), value));
    await using trainer = await createTrainer(model, {
      loss: 'mse',
      optimizer: { kind: 'sgd', lr: 0.01 },
      batchNorm: 'batch',
    });
    expect(trainer.parameters).toEqual(['bn.weight', 'bn.bias']);
    await trainer.step({ input: x, target: rows(DIMS, 3) });
    const state = await trainer.stateDict();
    const values = (name: string): number[] => Array.from(state.get(name)!.data as Float32Array);
    const near = (numbers: readonly number[]) => numbers.map((value) => expect.closeTo(value, 5) as number);
    expect(values('bn.running_mean')).toEqual(near(updated(before.running_mean, ({ mean }, c) => mean[c]!)));
    expect(values('bn.running_var')).toEqual(
      near(updated(before.running_var, ({ variance, count }, c) => (variance[c]! * count) / (count - 1))),
    );
    const { loss } = await trainer.evaluate({ input: x, target: rows(DIMS, 3) });
    expect(loss).toBeGreaterThan(0);
  });
});
