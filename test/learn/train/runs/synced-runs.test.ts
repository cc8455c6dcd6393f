/** Statistics over all rows: rows on several devices, or in parts, are one batch. */
import { type Tensor } from 'onnx-tapir';
import { createTrainer, type TrainerOptions } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { tinyResNet } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';
import { floats } from '../../../support/linear-models.js';
import { normNode, normWeights, rows } from '../../../support/norm-graphs.js';

const ROWS = 5;
const batch = {
  input: {
    dtype: 'float32',
    dims: [ROWS, 3, 64, 64],
    data: Float32Array.from({ length: ROWS * 3 * 64 * 64 }, (_, i) => Math.sin(i * 0.37) * ((i % 7) + 1)),
  },
  target: [0, 1, 2, 3, 4],
} as const;

type Options = Partial<TrainerOptions>;

/** The loss of two steps, and the state after them. */
async function train(options: Options): Promise<readonly [number, ReadonlyMap<string, Tensor>]> {
  const given: Parameters<typeof createTrainer>[1] = {
    loss: 'cross-entropy',
    optimizer: { kind: 'sgd', lr: 0.05, momentum: 0.9 },
    ...options,
  };
  await using trainer = await createTrainer(tinyResNet(), given);
  await trainer.step(batch);
  const { loss } = await trainer.step(batch);
  return [loss, await trainer.stateDict()];
}

/** One device that normalises the whole batch. */
const alone = (options: Options = {}) => train({ ...options, batchNorm: 'batch' });

function distance(ours: ReadonlyMap<string, Tensor>, theirs: ReadonlyMap<string, Tensor>): number {
  const distances = [...theirs].map(([name, { data }]) => {
    const [a, b] = [ours.get(name)!.data as Float32Array, data as Float32Array];
    const size = b.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-3);
    return b.reduce((most, value, i) => Math.max(most, Math.abs(value - a[i]!)), 0) / size;
  });
  return Math.max(...distances);
}

const devices = ['cpu:0', 'cpu:1', 'cpu:2'] as const;

describe('statistics over all rows', () => {
  it('equal those of one device with the whole batch, and so do the gradients', async () => {
    const [loss, state] = await alone();
    const [synced, syncedState] = await train({ batchNorm: 'synced', devices });
    expect(Math.abs(synced / loss - 1)).toBeLessThan(1e-5);
    expect(distance(syncedState, state)).toBeLessThan(1e-4);
    const [apart, apartState] = await train({ batchNorm: 'batch', devices });
    expect(Math.abs(apart / loss - 1)).toBeGreaterThan(1e-3);
    expect(distance(apartState, state)).toBeGreaterThan(1e-2);
  });

  it('join the parts of a batch that runs in turns', async () => {
    const [loss, state] = await alone();
    const [synced, syncedState] = await train({ batchNorm: 'synced', accumulate: 2 });
    expect(Math.abs(synced / loss - 1)).toBeLessThan(1e-5);
    expect(distance(syncedState, state)).toBeLessThan(1e-4);
  });

  it('go back only as far as something is trained', async () => {
    const parameters = ['layer4.0.conv2', 'fc'];
    const [loss, state] = await alone({ parameters });
    const [synced, syncedState] = await train({ batchNorm: 'synced', devices, parameters });
    expect(Math.abs(synced / loss - 1)).toBeLessThan(1e-5);
    expect(distance(syncedState, state)).toBeLessThan(1e-4);
  });
});

it('go through tensors whose rank only a run of the whole model tells', async () => {
  const channels = 3;
  const model = modelBytes({
    inputs: [{ name: 'x', dims: ['n', channels, 4, 4] }],
    outputs: [{ name: 'y', dims: ['n', channels] }],
    nodes: [
      normNode('bn1', 'x', 'a'),
      { op: 'Shape', inputs: ['a'], outputs: ['sizes'] },
      { op: 'Cast', inputs: ['sizes'], outputs: ['cast'], ints: { to: 1 } },
      { op: 'NonZero', inputs: ['cast'], outputs: ['places'] },
      { op: 'Squeeze', inputs: ['places', 'first'], outputs: ['axes'] },
      { op: 'Gather', inputs: ['sizes', 'axes'], outputs: ['same'] },
      { op: 'Reshape', inputs: ['a', 'same'], outputs: ['b'] },
      { op: 'Relu', inputs: ['b'], outputs: ['c'] },
      normNode('bn2', 'c', 'd'),
      { op: 'HardSigmoid', inputs: ['d'], outputs: ['e'] },
      { op: 'Mul', inputs: ['d', 'e'], outputs: ['f'] },
      { op: 'ReduceMean', inputs: ['f'], outputs: ['y'], ints: { axes: [2, 3], keepdims: 0 } },
    ],
    initializers: {
      ...normWeights('bn1', channels),
      ...normWeights('bn2', channels),
      first: { dims: [1], values: [0], elemType: 'int64' },
    },
  });
  const step = async (options: Options): Promise<number> => {
    await using trainer = await createTrainer(model, { loss: 'mse', optimizer: 'sgd', ...options });
    const input = rows([4, channels, 4, 4]);
    await trainer.step({ input, target: floats([4, channels], Array(12).fill(1) as number[]) });
    return (await trainer.step({ input, target: floats([4, channels], Array(12).fill(1) as number[]) })).loss;
  };
  const parts = await step({ batchNorm: 'synced', accumulate: 2 });
  expect(Math.abs(parts / (await step({ batchNorm: 'batch' })) - 1)).toBeLessThan(1e-5);
});
