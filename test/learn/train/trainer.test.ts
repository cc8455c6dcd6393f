/** The trainer's calls: what a step returns, what it refuses, and that a refused step changes nothing. */
import { TapirError, type Tensor } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { createTrainer, type TrainBatch, type Trainer, type TrainerOptions } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../src/onnx/file/wire/schema.js';
import { writeModel } from '../../../src/onnx/file/wire/write-model.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import { floats, linearModel } from '../../support/linear-models.js';
import { normNode, normWeights } from '../../support/norm-graphs.js';

const scratch = scratchFolder();
const CLASSES = { loss: 'cross-entropy', optimizer: { kind: 'sgd', lr: 0.1 } } as const;
const ROWS = floats([3, 3], [1, 0, 2, 0, 1, 1, -1, 1, 0]);
const BATCH = { input: ROWS, target: [0, 1, 1] };

const open = (given: Partial<TrainerOptions> = {}, model = linearModel()): Promise<Trainer> =>
  createTrainer(model, { ...CLASSES, ...given } as Parameters<typeof createTrainer>[1]);

/** All weights, as bytes. */
async function weightsOf(trainer: Trainer): Promise<Record<string, Tensor>> {
  return Object.fromEntries(await trainer.stateDict());
}

/** Expects that a batch is refused, and that nothing has changed. */
async function expectRefused(trainer: Trainer, batch: TrainBatch, error: object): Promise<void> {
  const before = await weightsOf(trainer);
  const steps = trainer.steps;
  await expect(trainer.step(batch)).rejects.toMatchObject(error);
  expect(await weightsOf(trainer)).toEqual(before);
  expect(trainer.steps).toBe(steps);
}

describe('step', () => {
  it('says what happened', async () => {
    await using trainer = await open();
    // Scores [7, 16], [5, 11], [1, 1].
    const expected = (Math.log(1 + Math.exp(9)) + Math.log(1 + Math.exp(-6)) + Math.log(2)) / 3;
    const result = await trainer.step(BATCH);
    expect(result).toEqual({
      step: 1,
      loss: expect.closeTo(expected, 5),
      rows: 3,
      correct: 1,
      lr: 0.1,
      gradientNorm: null,
    });
    expect(trainer.steps).toBe(1);
    expect((await trainer.step(BATCH)).loss).toBeLessThan(result.loss);
  });

  it('has no classes to count for values', async () => {
    await using trainer = await open({ loss: 'mse' });
    const { correct, loss } = await trainer.step({
      input: ROWS,
      target: floats([3, 2], [7, 16, 5, 11, 1, 3]),
    });
    expect({ correct, loss }).toEqual({ correct: null, loss: 4 / 6 });
  });

  it('takes batches of other sizes, int32 and int64 labels', async () => {
    await using trainer = await open();
    const one = floats([1, 3], [1, 0, 2]);
    const all = [
      { input: one, target: [1] },
      { input: one, target: { dtype: 'int64', dims: [1], data: BigInt64Array.of(1n) } },
      { input: { x: one }, target: { dtype: 'int32', dims: [1], data: Int32Array.of(1) } },
    ] as const;
    for (const batch of all) expect((await trainer.step(batch)).correct).toBe(1);
  });

  it('in calls that nobody awaits, takes one after the other', async () => {
    const given = { optimizer: { kind: 'adam', lr: 0.1 } } as const;
    await using together = await open(given);
    await using inTurn = await open(given);
    const batches = [1, 2, 3, 4].map((factor) => ({
      input: floats(
        [3, 3],
        [...ROWS.data].map((value) => value * factor),
      ),
      target: BATCH.target,
    }));
    const results = await Promise.all(batches.map((batch) => together.step(batch)));
    const expected = [];
    for (const batch of batches) expected.push(await inTurn.step(batch));
    expect(results).toEqual(expected);
    expect(results.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
    expect(await weightsOf(together)).toEqual(await weightsOf(inTurn));
  });

  it('leaves the batch as it was', async () => {
    await using trainer = await open();
    const input = floats([3, 3], [...ROWS.data]);
    await trainer.step({ input, target: BATCH.target });
    expect(input).toEqual(ROWS);
  });

  it('leaves what is frozen bit for bit', async () => {
    await using trainer = await open({ parameters: 'fc.bias' });
    const before = await weightsOf(trainer);
    await trainer.step(BATCH);
    const after = await weightsOf(trainer);
    expect(after['fc.weight']).toEqual(before['fc.weight']);
    expect(after['fc.bias']).not.toEqual(before['fc.bias']);
  });
});

describe('parameter groups', () => {
  const of = async (parameters: TrainerOptions['parameters']) => {
    await using trainer = await open({ parameters });
    const { lr } = await trainer.step(BATCH);
    return { lr, ...(await weightsOf(trainer)) };
  };

  it('have options of their own, and the optimizer’s others', async () => {
    const grouped = await of([
      { parameters: 'fc.weight', lr: 0.01 },
      { parameters: ['fc.bias'], lr: 0.5, weightDecay: 0.1 },
    ]);
    expect(grouped.lr).toBe(0.01);
    await using slow = await open({ optimizer: { kind: 'sgd', lr: 0.01 } });
    await slow.step(BATCH);
    await using fast = await open({ optimizer: { kind: 'sgd', lr: 0.5, weightDecay: 0.1 } });
    await fast.step(BATCH);
    expect(grouped['fc.weight' as 'lr']).toEqual((await weightsOf(slow))['fc.weight']);
    expect(grouped['fc.bias' as 'lr']).toEqual((await weightsOf(fast))['fc.bias']);
  });

  it('share no parameter', async () => {
    const overlapping = open({ parameters: [{ parameters: 'fc' }, { parameters: '*.bias', lr: 1 }] });
    await expect(overlapping).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('fc.bias'),
    });
  });

  it('refuse options that the optimizer does not have', async () => {
    await expect(open({ parameters: [{ parameters: 'fc', betas: [0.9, 0.99] }] })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('betas'),
    });
  });
});

describe('refusals', () => {
  it.each([
    ['NaN', NaN, 'NaN'],
    ['a loss that overflows', 3e38, 'Infinity'],
  ])('%s', async (_, value, found) => {
    await using trainer = await open({ loss: 'mse' });
    await trainer.step({ input: ROWS, target: floats([3, 2], [0, 0, 0, 0, 0, 0]) });
    const input = floats([3, 3], [1, 0, value, 0, 1, 1, -1, 1, 0]);
    await expectRefused(
      trainer,
      { input, target: floats([3, 2], [0, 0, 0, 0, 0, 0]) },
      { code: 'LOSS_NOT_FINITE', details: { step: 2, value: found } },
    );
    expect((await trainer.step({ input: ROWS, target: floats([3, 2], [0, 0, 0, 0, 0, 0]) })).step).toBe(2);
  });

  it('gradients that overflow although the loss is finite', async () => {
    await using trainer = await open(
      { loss: { kind: 'l1', reduction: 'sum' }, clipNorm: 1 },
      linearModel({ weight: [0, 0, 0, 0, 0, 0] }),
    );
    const input = floats([2, 3], [3e38, 0, 0, 3e38, 0, 0]);
    await expectRefused(
      trainer,
      { input, target: floats([2, 2], [1, 1, 1, 1]) },
      { code: 'LOSS_NOT_FINITE' },
    );
  });

  it.each([
    ['a class out of range', [0, 2, 1], /from 0 to 1 \(-100 leaves a row out\).*2 in row 1/],
    ['a negative class', [0, 1, -1], /-1 in row 2/],
    ['too few labels', [0, 1], /target|batch|rows/],
    ['no integer', [0, 0.5, 1], /0\.5/],
    ['no labels', [], /class indices/],
    ['nothing that counts', [-100, -100, -100], /all ignored/],
    ['probabilities of other dims', floats([3, 3], [...ROWS.data]), /\[n, 2\].*\[3, 3\]/],
    ['text', { dtype: 'string', dims: [3], data: ['a', 'b', 'c'] }, /class indices/],
  ])('a target with %s', async (_, target, message) => {
    await using trainer = await open();
    await expectRefused(trainer, { input: ROWS, target } as TrainBatch, {
      code: 'INPUT_MISMATCH',
      message: expect.stringMatching(message),
    });
  });

  it('values of other dims than the output', async () => {
    await using trainer = await open({ loss: 'mse' });
    for (const dims of [[3], [3, 1], [3, 2, 1]]) {
      const count = dims.reduce((product, size) => product * size, 1);
      const target = floats(
        dims,
        Array.from({ length: count }, () => 0),
      );
      await expectRefused(trainer, { input: ROWS, target }, { code: 'INPUT_MISMATCH' });
    }
  });

  it('input of other dims, and batches without rows', async () => {
    await using trainer = await open();
    await expectRefused(
      trainer,
      { input: floats([3, 2], [1, 2, 3, 4, 5, 6]), target: [0, 0, 0] },
      { code: 'INPUT_MISMATCH' },
    );
    await expectRefused(
      trainer,
      { input: floats([0, 3], []), target: floats([0, 2], []) },
      { code: 'INPUT_MISMATCH' },
    );
  });

  it.each([
    ['nothing to train', { parameters: [] }, 'OPTION_INVALID', /everything would stay frozen/],
    ['an empty name', { parameters: [''] }, 'OPTION_INVALID', /parameters/],
    ['an unknown name', { parameters: 'fx' }, 'NAME_NOT_FOUND', /"fx".*nearest is "fc"/],
    ['an unknown output', { output: 'nope' }, 'NAME_NOT_FOUND', /nope/],
    ['an unknown loss', { loss: 'mean-square' }, 'OPTION_INVALID', /loss/],
    ['an unknown optimizer', { optimizer: 'lion' }, 'OPTION_INVALID', /"optimizer"/],
    ['no loss', { loss: undefined }, 'OPTION_INVALID', /loss/],
    ['a batchNorm', { batchNorm: 'train' }, 'OPTION_INVALID', /batchNorm/],
    ['a clipNorm', { clipNorm: 0 }, 'OPTION_INVALID', /clipNorm/],
    ['an accumulate', { accumulate: 1.5 }, 'OPTION_INVALID', /accumulate/],
    ['another option', { epochs: 3 }, 'OPTION_INVALID', /epochs/],
    [
      'weights of another number of classes',
      { loss: { kind: 'cross-entropy', weights: [1, 2, 3] } },
      'INPUT_MISMATCH',
      /2 numbers/,
    ],
  ])('options with %s', async (name, given, code, message) => {
    const attempt = (async () => {
      await using trainer = await open(given as Partial<TrainerOptions>);
      await trainer.step(BATCH);
    })();
    await expect(attempt, name).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  });

  it('weights in half precision', async () => {
    const half = writeModel({
      irVersion: 8,
      opset: 17,
      name: 'half',
      nodes: [{ name: 'n', opType: 'Add', inputs: ['x', 'w'], outputs: ['y'], attributes: {} }],
      tensors: [{ name: 'w', elemType: ELEMENT_TYPE.float16, dims: [2], data: new Uint8Array(4) }],
      inputs: [{ name: 'x', elemType: ELEMENT_TYPE.float16, dims: ['n', 2] }],
      outputs: [{ name: 'y', elemType: ELEMENT_TYPE.float16, dims: ['n', 2] }],
    });
    const attempt = open({ parameters: 'tensor:w' }, half as Uint8Array<ArrayBuffer>);
    await expect(attempt).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
      message: expect.stringContaining('convert the model to float32 first'),
    });
  });
});

describe('models', () => {
  const two = modelBytes({
    inputs: [{ name: 'x', dims: ['n', 2] }],
    outputs: [
      { name: 'y', dims: ['n', 2] },
      { name: 'z', dims: ['n', 2] },
    ],
    nodes: [
      { op: 'Add', inputs: ['x', 'a'], outputs: ['y'] },
      { op: 'Mul', inputs: ['x', 'b'], outputs: ['z'] },
    ],
    initializers: { a: [1, 2], b: [3, 4] },
  }) as Uint8Array<ArrayBuffer>;

  it('with several outputs need the name of one', async () => {
    await expect(open({ parameters: 'tensor:a' }, two)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('"y", "z"'),
    });
    await using trainer = await open({ parameters: 'tensor:a', output: 'tensor:y' }, two);
    expect((await trainer.step({ input: floats([1, 2], [0, 0]), target: [1] })).loss).toBeCloseTo(
      Math.log(1 + Math.exp(-1)),
    );
  });

  it('with a fixed batch take batches of that size alone', async () => {
    const fixed = linearModel({ rows: 3 });
    await using trainer = await open({}, fixed as Uint8Array<ArrayBuffer>);
    expect((await trainer.step(BATCH)).rows).toBe(3);
    await expectRefused(trainer, { input: floats([1, 3], [1, 2, 3]), target: [0] }, { code: 'BATCH_FIXED' });
  });

  it('may be an extractor’s, an OnnxModel, or bytes', async () => {
    const model = await createModel('resnet18', { seed: 1, numClasses: 3, imageSize: 32 });
    await using trainer = await createTrainer(model, { ...CLASSES, parameters: 'fc' });
    expect(trainer.parameters).toEqual(['fc.weight', 'fc.bias']);
    expect(trainer.inputs).toEqual(model.inputs);
  });
});

describe('evaluate', () => {
  it('weighs batches by rows, and trains nothing', async () => {
    await using trainer = await open();
    const before = await weightsOf(trainer);
    const whole = await trainer.evaluate(BATCH);
    const parts = await trainer.evaluate([
      { input: floats([2, 3], [1, 0, 2, 0, 1, 1]), target: [0, 1] },
      { input: floats([1, 3], [-1, 1, 0]), target: [1] },
    ]);
    expect(parts.loss).toBeCloseTo(whole.loss, 6);
    expect(parts).toMatchObject({ rows: 3, accuracy: whole.accuracy });
    expect(whole.accuracy).toBeCloseTo(1 / 3);
    expect(await weightsOf(trainer)).toEqual(before);
    expect(trainer.steps).toBe(0);
  });

  it('sees the weights of the last step', async () => {
    await using trainer = await open();
    const { loss } = await trainer.evaluate(BATCH);
    expect((await trainer.step(BATCH)).loss).toBeCloseTo(loss, 6);
    expect((await trainer.evaluate(BATCH)).loss).toBeLessThan(loss);
  });

  it('leaves ignored rows out', async () => {
    await using trainer = await open();
    const part = await trainer.evaluate({ input: ROWS, target: [0, -100, 1] });
    const same = await trainer.evaluate({ input: floats([2, 3], [1, 0, 2, -1, 1, 0]), target: [0, 1] });
    expect(part.loss).toBeCloseTo(same.loss, 6);
    expect(part.accuracy).toBe(same.accuracy);
  });

  it('needs a batch', async () => {
    await using trainer = await open();
    await expect(trainer.evaluate([])).rejects.toMatchObject({ code: 'INPUT_MISMATCH' });
  });
});

describe('ending', () => {
  it('a closed trainer refuses calls, and close may be called again', async () => {
    const trainer = await open();
    const last = trainer
      .step(BATCH)
      .catch((error: unknown) => expect(error).toMatchObject({ code: 'CLOSED' }));
    await trainer.close();
    await trainer.close();
    await expect(trainer.step(BATCH)).rejects.toMatchObject({ code: 'CLOSED' });
    await expect(trainer.evaluate(BATCH)).rejects.toMatchObject({ code: 'CLOSED' });
    await last;
  });

  it('a signal that has fired stops a step before it starts', async () => {
    await using trainer = await open();
    const before = await weightsOf(trainer);
    const reason = new Error('enough');
    await expect(trainer.step(BATCH, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    await expect(trainer.evaluate(BATCH, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(await weightsOf(trainer)).toEqual(before);
  });

  it('a signal that fires during a step leaves the weights and the statistics as they were', async () => {
    await using trainer = await open({ batchNorm: 'batch' }, tinyResNet() as Uint8Array<ArrayBuffer>);
    const before = await weightsOf(trainer);
    const input = floats(
      [16, 3, 64, 64],
      Array.from({ length: 16 * 3 * 64 * 64 }, (_, i) => Math.sin(i)),
    );
    const target = Array.from({ length: 16 }, (_, i) => i % 10);
    const controller = new AbortController();
    const step = trainer.step({ input, target }, { signal: controller.signal });
    const reason = new Error('enough');
    setImmediate(() => controller.abort(reason));
    await expect(step).rejects.toBe(reason);
    expect(await weightsOf(trainer)).toEqual(before);
    expect(trainer.steps).toBe(0);
    expect((await trainer.step({ input, target })).step).toBe(1);
  });
});

describe('resume', () => {
  it('refuses the checkpoint of another training', async () => {
    await using trainer = await open({ optimizer: 'adam' });
    await trainer.step(BATCH);
    await trainer.save(scratch, { epoch: 7 });
    for (const given of [{ optimizer: 'adamw' }, { optimizer: 'adam', parameters: 'fc.bias' }] as const) {
      await using other = await open(given);
      const before = await weightsOf(other);
      await expect(other.resume(scratch)).rejects.toMatchObject({ code: 'CHECKPOINT_INVALID' });
      expect(await weightsOf(other)).toEqual(before);
    }
    await using same = await open({ optimizer: 'adam' });
    expect(await same.resume(scratch)).toEqual({ epoch: 7 });
    expect(same.steps).toBe(1);
    expect(await weightsOf(same)).toEqual(await weightsOf(trainer));
    expect(await same.step(BATCH)).toEqual(await trainer.step(BATCH));
  });

  it('is an error that says so where there is none', async () => {
    await using trainer = await open();
    const attempt = trainer.resume(`${scratch}/nothing`);
    await expect(attempt).rejects.toBeInstanceOf(TapirError);
    await expect(attempt).rejects.toMatchObject({ code: 'CHECKPOINT_INVALID' });
  });
});

describe('createTrainer', () => {
  it('refuses a norm that takes its statistics from the batch by itself', async () => {
    const dims = ['n', 3];
    const model = modelBytes({
      inputs: [{ name: 'x', dims }],
      outputs: [{ name: 'y', dims }],
      nodes: [{ ...normNode('bn', 'x', 'y'), outputs: ['y', 'm', 'v'], ints: { training_mode: 1 } }],
      initializers: normWeights('bn', 3),
    });
    for (const batchNorm of ['frozen', 'batch', 'synced'] as const)
      await expect(open({ batchNorm }, model)).rejects.toMatchObject({
        code: 'NORMS_UNAVAILABLE',
        details: { layers: ['bn'] },
      });
  });
});
