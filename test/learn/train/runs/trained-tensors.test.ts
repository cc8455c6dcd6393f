/** Which tensors a trainer changes: patterns, tensors that exporters merged, tied ones, transposed ones. */
import { isDeepStrictEqual } from 'node:util';
import { createFeatureExtractor, openModel } from 'onnx-tapir';
import { createTrainer, type Trainer } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { fixturePath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';
import { floats, linearModel, stackedModel } from '../../../support/linear-models.js';
import { normNode, normWeights } from '../../../support/norm-graphs.js';
import { stateFixture } from '../../../support/states.js';

const scratch = scratchFolder();
const SQUARE = { loss: { kind: 'mse', reduction: 'sum' }, optimizer: { kind: 'sgd', lr: 0.5 } } as const;
const ROW = { input: floats([1, 2], [1, 2]), target: floats([1, 2], [0, 0]) };

async function parametersOf(model: Uint8Array, parameters: string | readonly string[]) {
  await using trainer = await createTrainer(model, { ...SQUARE, parameters, output: 'fc' });
  return trainer.parameters;
}

async function valuesOf(trainer: Trainer, name: string): Promise<number[]> {
  return [...((await trainer.stateDict()).get(name)!.data as Float32Array)];
}

describe('patterns', () => {
  it.each([
    ['fc', ['fc.weight', 'fc.bias']],
    ['fc.bias', ['fc.bias']],
    ['fc.*', ['fc.weight', 'fc.bias']],
    ['layer4.0.bn1', ['layer4.0.bn1.weight', 'layer4.0.bn1.bias']],
    ['layer4.*.conv2', ['layer4.0.conv2.weight']],
    [
      ['fc', 'layer4.0.bn1.*', 'fc.bias'],
      ['layer4.0.bn1.weight', 'layer4.0.bn1.bias', 'fc.weight', 'fc.bias'],
    ],
  ])('%j', async (pattern, expected) => {
    expect(await parametersOf(tinyResNet(), pattern)).toEqual(expected);
  });

  it('"*.bias" has all biases, "*" has everything', async () => {
    const all = (await openModel(tinyResNet())).namedParameters().filter(({ kind }) => kind === 'parameter');
    const names = all.map(({ name }) => name);
    expect(await parametersOf(tinyResNet(), '*.bias')).toEqual(
      names.filter((name) => name.endsWith('.bias')),
    );
    expect(await parametersOf(tinyResNet(), '*')).toEqual(names);
    expect(names).not.toContain('bn1.running_mean');
  });

  it('a module does not stand for one whose name goes on', async () => {
    await expect(parametersOf(tinyResNet(), 'layer')).rejects.toMatchObject({ code: 'NAME_NOT_FOUND' });
    await expect(parametersOf(tinyResNet(), 'layer4.0.conv')).rejects.toMatchObject({
      code: 'NAME_NOT_FOUND',
    });
  });

  it('dots stand for themselves', async () => {
    await expect(parametersOf(tinyResNet(), 'fc_weight')).rejects.toMatchObject({
      code: 'NAME_NOT_FOUND',
      message: expect.stringContaining('"fc.weight"'),
    });
  });

  it('tensor:NAME is an initializer of the file', async () => {
    await using trainer = await createTrainer(linearModel({ isTransposed: true }), {
      ...SQUARE,
      parameters: 'tensor:onnx::MatMul_3',
    });
    expect(trainer.parameters).toEqual(['tensor:onnx::MatMul_3']);
    const missing = createTrainer(linearModel(), { ...SQUARE, parameters: 'tensor:nope' });
    await expect(missing).rejects.toMatchObject({ code: 'NAME_NOT_FOUND' });
  });
});

describe('tensors in the file', () => {
  const weight = { dims: [2, 2], values: [1, 0, 0, 1] };

  /** y = 2 x in two layers; their biases are one initializer, which has the name of one of them. */
  const merged = (name: string): Uint8Array =>
    stackedModel(
      { first: ['first.weight', name], second: ['second.weight', name] },
      { 'first.weight': weight, 'second.weight': { dims: [2, 2], values: [2, 0, 0, 2] }, [name]: [0, 0] },
    );
  // dL/dy = 2 y = [4, 8]: the gradient of the second bias. That of the first one passes the second layer.
  const moved = { 'first.bias': [-4, -8], 'second.bias': [-2, -4] };

  it.each([
    ['*.bias', moved],
    ['first.bias', { ...moved, 'second.bias': [0, 0] }],
    ['second.bias', { ...moved, 'first.bias': [0, 0] }],
  ])('zero biases that an exporter merged are trained apart: %s', async (parameters, expected) => {
    for (const name of Object.keys(moved)) {
      await using trainer = await createTrainer(merged(name), { ...SQUARE, parameters });
      await trainer.step(ROW);
      for (const [bias, values] of Object.entries(expected))
        expect(await valuesOf(trainer, bias), `${bias} of ${name}`).toEqual(values);
    }
  });

  it('a tied weight stays one, and its gradients add up', async () => {
    const model = stackedModel(
      { first: ['first.weight', 'first.bias'], second: ['first.weight', 'second.bias'] },
      { 'first.weight': { dims: [2, 2], values: [1, 0, 0, 2] }, 'first.bias': [0, 1], 'second.bias': [0, 1] },
    );
    await using trainer = await createTrainer(model, {
      ...SQUARE,
      optimizer: { kind: 'sgd', lr: 1 },
      parameters: '*.weight',
    });
    expect(trainer.parameters).toEqual(['first.weight']);
    // h = [1, 5], y = [1, 11], dL/dy = [2, 22]; dL/dW = dL/dy · hᵀ + (Wᵀ dL/dy) · xᵀ with Wᵀ dL/dy = [2, 44].
    await trainer.step(ROW);
    expect(await valuesOf(trainer, 'first.weight')).toEqual([1 - 2 - 2, -10 - 4, -22 - 44, 2 - 110 - 88]);
  });

  it('a transposed weight is read and trained in torch’s layout', async () => {
    const states = await Promise.all(
      [false, true].map(async (isTransposed) => {
        await using trainer = await createTrainer(linearModel({ isTransposed }), SQUARE);
        await trainer.step({
          input: floats([2, 3], [1, 0, 2, 0, 1, 1]),
          target: floats([2, 2], [0, 1, 2, 3]),
        });
        return trainer.stateDict();
      }),
    );
    expect([...states[1]!.keys()].toSorted()).toEqual(['fc.bias', 'fc.weight']);
    // y = [[7, 16], [5, 11]], dL/dy = [[14, 30], [6, 16]].
    const weight = [1 - 7, 2 - 3, 3 - 17, 4 - 15, 5 - 8, 6 - 38];
    for (const state of states) expect(state.get('fc.weight')).toEqual(floats([2, 3], weight));
    for (const state of states) expect(state.get('fc.bias')).toEqual(floats([2], [-10, -23]));
  });

  it('the model has the weights of the last step', async () => {
    await using trainer = await createTrainer(linearModel({ isTransposed: true }), SQUARE);
    const unchanged = await trainer.model();
    expect(unchanged.namedParameters().map(({ name }) => name)).toEqual(['fc.weight', 'fc.bias']);
    await trainer.step({ input: floats([1, 3], [1, 0, 2]), target: floats([1, 2], [0, 1]) });
    await using extractor = await createFeatureExtractor(await trainer.model(), ['y']);
    const { y } = await extractor.run(floats([1, 3], [1, 0, 2]));
    // W = [[-6, 2, -11], [-11, 5, -24]], b = [-7, -15].
    expect([...(y!.data as Float32Array)]).toEqual([-6 - 22 - 7, -11 - 48 - 15]);
  });
});

describe('files that cannot be trained', () => {
  const folded = fixturePath('folding/ts.onnx');

  it('refuses a norm that was folded away', async () => {
    const attempt = createTrainer(folded, { ...SQUARE, parameters: 'single.1.weight' });
    await expect(attempt).rejects.toMatchObject({
      code: 'PARAMETER_FOLDED',
      message: expect.stringContaining('single.1.weight'),
    });
    const inTraining = createTrainer(folded, { ...SQUARE, parameters: 'head', batchNorm: 'batch' });
    await expect(inTraining).rejects.toMatchObject({
      code: 'NORMS_UNAVAILABLE',
      message: expect.stringContaining('batchNorm "frozen"'),
    });
  });

  it('trains what was not folded', async () => {
    const path = stateFixture('resnet/resnet.ts.onnx', scratch);
    await using trainer = await createTrainer(path, { ...SQUARE, parameters: 'fc' });
    expect(trainer.parameters).toEqual(['fc.weight', 'fc.bias']);
  });
});

describe('tensors that the loss does not see', () => {
  const weights = { ...normWeights('bn0', 2), ...normWeights('bn1', 2), ...normWeights('bn2', 2) };
  // The nodes of the head that is not trained come first.
  const two = modelBytes({
    inputs: [{ name: 'x', dims: ['n', 2] }],
    outputs: [
      { name: 'y', dims: ['n', 2] },
      { name: 'z', dims: ['n', 2] },
    ],
    nodes: [
      normNode('bn0', 'x', 'y'),
      { op: 'Relu', inputs: ['x'], outputs: ['a'], name: 'relu' },
      normNode('bn1', 'a', 'b'),
      normNode('bn2', 'b', 'z'),
    ],
    initializers: weights,
  });

  it('stay as they are, statistics too', async () => {
    await using trainer = await createTrainer(two, { ...SQUARE, output: 'tensor:z', batchNorm: 'batch' });
    expect(trainer.parameters).toEqual(['bn1.weight', 'bn1.bias', 'bn2.weight', 'bn2.bias']);
    const before = Object.fromEntries(await trainer.stateDict());
    // The rows of a channel are 0, 2 and 4: mean 2, sample variance 4, of which torch takes a tenth.
    const input = floats([3, 2], [0, -1, 2, -1, 4, -1]);
    await trainer.step({ input, target: floats([3, 2], [0, 0, 0, 0, 0, 0]) });
    const after = Object.fromEntries(await trainer.stateDict());
    const changed = Object.keys(before).filter((name) => !isDeepStrictEqual(before[name], after[name]));
    expect(changed.filter((name) => name.startsWith('bn0'))).toEqual([]);
    expect(changed).toContain('bn2.running_var');
    const [mean, variance] = ['bn1.running_mean', 'bn1.running_var'].map((name) => after[name]!.data);
    expect([...(mean as Float32Array)]).toEqual([expect.closeTo(0.2, 6), 0]);
    expect([...(variance as Float32Array)]).toEqual([expect.closeTo(1.3, 6), expect.closeTo(0.9, 6)]);
  });

  it('cannot be trained alone', async () => {
    const attempt = createTrainer(two, { ...SQUARE, output: 'tensor:z', parameters: 'bn0' });
    await expect(attempt).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('bn0.weight, bn0.bias'),
    });
  });
});
