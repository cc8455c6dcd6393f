/** Parameters of which exporters computed constants: what the file lacks is refused, in loading, gradients and training. */
import { readFileSync } from 'node:fs';
import { openModel, type OnnxModel } from 'onnx-tapir';
import { differentiate } from 'onnx-tapir/gradients';
import { loadStateDict } from 'onnx-tapir/parameters';
import { createTrainer } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { fixturePath } from '../../support/fixtures.js';

const open = (exporter: string): ReturnType<typeof openModel> =>
  openModel(fixturePath(`computed/computed.${exporter}.onnx`));
const dimsOf = JSON.parse(readFileSync(fixturePath('computed/computed.json'), 'utf8')) as Record<
  string,
  number[]
>;
const state = new Map(
  Object.entries(dimsOf).flatMap(([key, dims]) => {
    if (key.endsWith('num_batches_tracked')) return [];
    const size = dims.reduce((product, one) => product * one, 1);
    const data = Float32Array.from({ length: size }, (_, i) => 1 + ((i * 7) % 5) / 8);
    return [[key, { dtype: 'float32', dims, data } as const] as const];
  }),
);

describe('a file of dynamo', () => {
  it('takes no values for a parameter that a constant was computed of, or that a torch call does not read', async () => {
    const model = await open('dynamo');
    for (const key of ['scaled.weight', 'gem.p'])
      // oxlint-disable-next-line no-await-in-loop -- one refusal after the other
      await expect(
        loadStateDict(
          model,
          new Map([...state].filter(([name]) => name === key || name.startsWith('head'))),
          {
            strict: false,
          },
        ),
        key,
      ).rejects.toMatchObject({ code: 'STATE_MISMATCH', details: { derived: [key] } });
  });

  it('has no gradient of it, and none of a bias that holds a norm', async () => {
    const model = await open('dynamo');
    const of = [`tensor:${model.outputs[0]!.name}`];
    for (const name of ['gem.p', 'norms.0.bias'])
      // oxlint-disable-next-line no-await-in-loop -- one refusal after the other
      await expect(differentiate(model, { of, withRespectTo: [name] }), name).rejects.toMatchObject({
        code: 'PARAMETER_FOLDED',
      });
    const whole = await differentiate(model, { of, withRespectTo: ['tensor:gem.p'] });
    expect(whole.plan.resolved).toHaveLength(1);
  });
});

it('an InstanceNorm without a weight has no parameter to train', async () => {
  const model = await open('ts');
  const parameters = model.namedParameters().filter(({ kind }) => kind === 'parameter');
  expect(parameters.map(({ name }) => name).filter((name) => name.includes('instance'))).toEqual([]);
  const trainer = await createTrainer(model, {
    loss: 'cross-entropy',
    optimizer: 'sgd',
    parameters: ['head', 'padded', 'twice'],
  });
  expect(trainer.parameters).toContain('padded.conv.weight');
  await trainer.close();
});

describe('buffers of a file of dynamo', () => {
  const file = fixturePath('computed/buffers.dynamo.onnx');
  const parameters = ['normalize.scale', 'fc.weight', 'fc.bias'];
  const buffers = ['normalize.mean', 'blur', 'book'];

  it('are listed as buffers, and not trained by default', async () => {
    const listed = (await openModel(file)).namedParameters();
    const ofKind = (wanted: string): string[] =>
      listed.filter(({ kind }) => kind === wanted).map(({ name }) => name);
    expect(ofKind('parameter')).toEqual(parameters);
    expect(ofKind('buffer').toSorted()).toEqual(buffers.toSorted());
    await using trainer = await createTrainer(file, { loss: 'cross-entropy', optimizer: 'sgd' });
    expect(trainer.parameters).toEqual(parameters);
  });

  it('keep their values where the exporter merged them with a parameter', async () => {
    const before = await valueOf(await openModel(file), 'book');
    await using trainer = await createTrainer(file, {
      loss: 'cross-entropy',
      optimizer: { kind: 'sgd', lr: 0.5 },
    });
    const data = Float32Array.from({ length: 48 }, (_, i) => Math.sin(i));
    await trainer.step({ input: { dtype: 'float32', dims: [1, 3, 4, 4], data }, target: [0] });
    const trained = await trainer.model();
    expect(await valueOf(trained, 'book')).toEqual(before);
    expect(await valueOf(trained, 'fc.weight')).not.toEqual(before);
  });
});

async function valueOf(model: OnnxModel, wanted: string): Promise<unknown> {
  return (
    await model
      .namedParameters()
      .find(({ name }) => name === wanted)!
      .read()
  ).data;
}
