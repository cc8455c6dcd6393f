/** Training over ranks inside one program: as one process with all rows, and the same bits from run to run. */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { type Tensor } from 'onnx-tapir';
import {
  createTrainer,
  localGroups,
  type ProcessGroup,
  type TrainBatch,
  type Trainer,
} from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { scratchFolder } from '../../../support/fixtures.js';
import { modelBytes, type WeightSpec } from '../../../support/graphs.js';
import { normNode, normWeights, rows, twoNorms } from '../../../support/norm-graphs.js';
import { rounds, someOf } from '../../../support/rounds.js';

type Given = Parameters<typeof createTrainer>[1];

const weight = (dims: readonly number[], seed: number): WeightSpec => ({
  dims,
  values: Array.from(rows(dims, seed).data, (value) => value / 25),
});

/** Two convolutions with norms, and a classifier of four classes. */
const MODEL = modelBytes({
  inputs: [{ name: 'x', dims: ['n', 3, 6, 6] }],
  outputs: [{ name: 'y', dims: ['n', 4] }],
  nodes: [
    { op: 'Conv', name: 'conv1', inputs: ['x', 'conv1.weight'], outputs: ['a'] },
    normNode('bn1', 'a', 'b'),
    { op: 'Relu', inputs: ['b'], outputs: ['c'] },
    { op: 'Conv', name: 'conv2', inputs: ['c', 'conv2.weight'], outputs: ['d'] },
    normNode('bn2', 'd', 'e'),
    { op: 'Relu', inputs: ['e'], outputs: ['f'] },
    { op: 'ReduceMean', inputs: ['f'], outputs: ['g'], ints: { axes: [2, 3], keepdims: 0 } },
    { op: 'Gemm', inputs: ['g', 'fc.weight', 'fc.bias'], outputs: ['y'], ints: { transB: 1 } },
  ],
  initializers: {
    'conv1.weight': weight([4, 3, 3, 3], 1),
    ...normWeights('bn1', 4),
    'conv2.weight': weight([5, 4, 3, 3], 2),
    ...normWeights('bn2', 5),
    'fc.weight': weight([4, 5], 3),
    'fc.bias': [0, 0.1, 0, 0],
  },
});

const GIVEN = {
  loss: { kind: 'cross-entropy', ignoreIndex: 3, weights: [1, 2, 1, 1] },
  optimizer: { kind: 'sgd', lr: 0.02, momentum: 0.9 },
  clipNorm: 1,
} as const satisfies Given;

/** The share of a rank: every size-th of 7 rows, or of 3 in each fifth step. */
function shareOf(step: number, rank: number, size: number): TrainBatch | null {
  const all = Array.from({ length: step % 5 === 4 ? 3 : 7 }, (_, i) => i);
  const own = all.filter((row) => row % size === rank);
  if (own.length === 0) return null;
  const data = own.flatMap((row) =>
    Array.from(rows([1, 3, 6, 6], step * 10 + row).data, (value) => value / 6),
  );
  const input = { dtype: 'float32', dims: [own.length, 3, 6, 6], data: Float32Array.from(data) } as const;
  return { input, target: own.map((row) => (row + step) % 4) };
}

interface Trained {
  readonly losses: readonly number[];
  readonly correct: readonly (number | null)[];
  readonly state: ReadonlyMap<string, Tensor>;
  readonly evaluated: unknown;
}

/** Some steps of each rank. */
async function train(size: number, steps: number, given: Partial<Given> = {}): Promise<Trained[]> {
  return Promise.all(
    localGroups(size).map(async (group) => {
      await using trainer = await createTrainer(MODEL, { ...GIVEN, ...given, group });
      const results = [];
      for (let step = 0; step < steps; step++)
        results.push(await trainer.step(shareOf(step, group.rank, size)));
      const share = shareOf(0, group.rank, size);
      return {
        losses: results.map(({ loss }) => loss),
        correct: results.map(({ correct }) => correct),
        state: await trainer.stateDict(),
        evaluated: await trainer.evaluate(share ? [share] : []),
      };
    }),
  );
}

const bitsOf = ({ losses, state }: Trained): string =>
  JSON.stringify([losses, [...state].map(([name, { data }]) => [name, [...(data as Float32Array)]])]);

describe.each(['frozen', 'synced'] as const)('with norms that are %s', (batchNorm) => {
  const steps = rounds(20, 50);
  it.each(someOf([5, 2, 3], 3))('%i ranks train as one, and to the same bits each time', async (size) => {
    const [one] = await train(1, steps, { batchNorm: batchNorm === 'synced' ? 'batch' : batchNorm });
    const ranks = await train(size, steps, { batchNorm });
    for (const [step, loss] of one!.losses.entries())
      expect(Math.abs(ranks[0]!.losses[step]! / loss - 1)).toBeLessThan(1e-6);
    expect(ranks[0]!.correct).toEqual(one!.correct);
    expect(new Set(ranks.map(bitsOf)).size).toBe(1);
    const [again] = await train(size, 10, { batchNorm });
    expect(again!.losses).toEqual(ranks[0]!.losses.slice(0, 10));
    const { loss, rows: count } = ranks[0]!.evaluated as { readonly loss: number; readonly rows: number };
    expect(ranks.map(({ evaluated }) => evaluated)).toEqual(Array(size).fill(ranks[0]!.evaluated));
    expect(count).toBe(7);
    expect(loss / (one!.evaluated as { readonly loss: number }).loss).toBeCloseTo(1, 5);
  });
});

it('keeps the statistics of rank 0 with norms of each rank’s rows', async () => {
  const given = { batchNorm: 'batch', parameters: 'fc' } as const;
  const [first, second] = await train(2, 1, given);
  expect(bitsOf(first!)).toBe(bitsOf(second!));
  await using alone = await createTrainer(MODEL, { ...GIVEN, ...given });
  await alone.step(shareOf(0, 0, 2)!);
  const expected = await alone.stateDict();
  for (const name of ['bn1.running_mean', 'bn2.running_var'])
    expect(first!.state.get(name)).toEqual(expected.get(name));
  expect(first!.state.get('fc.weight')).not.toEqual(expected.get('fc.weight'));
});

it('adds up losses that are sums, and values without classes', async () => {
  const target = (count: number): Tensor => ({
    dtype: 'float32',
    dims: [count, 4],
    data: new Float32Array(4 * count).fill(0.5),
  });
  const lossOf = async (size: number): Promise<(readonly [number, number | null])[]> =>
    Promise.all(
      localGroups(size).map(async (group) => {
        const given = { loss: { kind: 'mse', reduction: 'sum' }, optimizer: 'rmsprop' } as const;
        await using trainer = await createTrainer(MODEL, { ...given, group });
        const share = shareOf(0, group.rank, size)!;
        const { dims } = share.input as unknown as Tensor;
        const { loss, correct } = await trainer.step({ ...share, target: target(dims[0]!) });
        return [loss, correct] as const;
      }),
    );
  const [[one]] = (await lossOf(1)) as [[number, null]];
  const both = await lossOf(2);
  expect(both[0]).toEqual(both[1]);
  expect(both[0]![0] / one).toBeCloseTo(1, 6);
  expect(both[0]![1]).toBe(null);
});

describe('ranks that differ', () => {
  const open = (group: ProcessGroup, given: Partial<Given> = {}): Promise<Trainer> =>
    createTrainer(MODEL, { ...GIVEN, ...given, group });
  const settle = async (calls: readonly Promise<unknown>[]): Promise<unknown[]> =>
    (await Promise.allSettled(calls)).map((one) => (one as PromiseRejectedResult).reason);

  it('in their options or model end before the first step', async () => {
    const [a, b] = localGroups(2);
    const differ = (what: string) => Array(2).fill({ code: 'RANKS_DIFFER', details: { rank: 1, what } });
    expect(await settle([open(a!), open(b!, { clipNorm: 2 })])).toMatchObject(differ('"clipNorm"'));
    const [c, d] = localGroups(2);
    const other = twoNorms(['n', 3, 6, 6]);
    const opened = [open(c!), createTrainer(other, { ...GIVEN, group: d! })];
    expect(await settle(opened)).toMatchObject(differ('"model"'));
  });

  it('in their weights end at a checkpoint, and name the first tensor', async () => {
    const [first, second] = localGroups(2);
    const wrong: ProcessGroup = {
      ...second!,
      sum: async (arrays, signal) => {
        await second!.sum(arrays, signal);
        if (arrays[0] instanceof Float32Array) arrays[1]![0]! += 1;
      },
    };
    const [a, b] = await Promise.all([
      open(first!, { clipNorm: undefined }),
      open(wrong, { clipNorm: undefined }),
    ]);
    await Promise.all([a.step(shareOf(0, 0, 2)), b.step(shareOf(0, 1, 2))]);
    const folder = mkdtempSync(join(scratchFolder(), 'ranks-'));
    const errors = await settle([a.save(folder), b.save(folder)]);
    expect(errors).toMatchObject(
      Array(2).fill({
        code: 'RANKS_DIFFER',
        details: { rank: 1, what: `"${a.parameters[1]!}" after step 1` },
      }),
    );
    await Promise.all([a.close(), b.close()]);
  });

  it('in what fails on one of them end with its name, and with the weights of before', async () => {
    const [first, second] = localGroups(2);
    const [a, b] = await Promise.all([open(first!), open(second!)]);
    const before = await a.stateDict();
    const bad = { ...shareOf(0, 1, 2)!, target: [9, 9, 9] };
    expect(await settle([a.step(shareOf(0, 0, 2)), b.step(bad)])).toMatchObject([
      { code: 'RANK_LOST', details: { rank: 1, reason: expect.stringMatching(/class indices from 0 to 3/) } },
      { code: 'INPUT_MISMATCH' },
    ]);
    expect(await a.stateDict()).toEqual(before);
    expect(a.steps).toBe(0);
    await Promise.all([a.close(), b.close()]);
  });
});

it('resumes on all ranks from the checkpoint that rank 0 writes and reads', async () => {
  const folder = mkdtempSync(join(scratchFolder(), 'ranks-'));
  const run = (steps: readonly number[], resume: boolean): Promise<string[]> =>
    Promise.all(
      localGroups(2).map(async (group) => {
        await using trainer = await createTrainer(MODEL, { ...GIVEN, group, batchNorm: 'synced' });
        // Other ranks have no such folder.
        const own = group.rank === 0 ? folder : join(folder, 'none');
        if (resume) expect(await trainer.resume(own)).toEqual({ epoch: 1 });
        const losses = [];
        for (const step of steps) losses.push((await trainer.step(shareOf(step, group.rank, 2))).loss);
        if (!resume) await trainer.save(own, { epoch: 1 });
        return bitsOf({ losses: [], correct: [], evaluated: null, state: await trainer.stateDict() });
      }),
    );
  await run([0, 1], false);
  const resumed = await run([2, 3], true);
  const whole = await run([0, 1, 2, 3], false);
  expect(new Set([...resumed, ...whole]).size).toBe(1);
});

it('refuses what is no group', async () => {
  const group = { rank: 2, size: 2 } as ProcessGroup;
  await expect(createTrainer(MODEL, { ...GIVEN, group })).rejects.toMatchObject({ code: 'OPTION_INVALID' });
});
