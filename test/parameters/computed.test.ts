/** Parameters of which exporters computed constants: what the file lacks is refused, in loading, gradients and training. */
import { readFileSync } from 'node:fs';
import { openModel } from 'onnx-tapir';
import { differentiate } from 'onnx-tapir/gradients';
import { loadStateDict } from 'onnx-tapir/parameters';
import { createTrainer } from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { fixturePath } from '../support/fixtures.js';

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
