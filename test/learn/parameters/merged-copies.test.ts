/** TorchScript's merged tensors, which Identity nodes copy under the names of the other parameters: `b.bias → g.bias`. */
import { join } from 'node:path';
import { openModel } from 'onnx-tapir';
import { loadStateDict } from 'onnx-tapir/parameters';
import { createTrainer } from 'onnx-tapir/train';
import { expect, it } from 'vitest';
import { fixturePath, scratchFolder } from '../../support/fixtures.js';

const file = fixturePath('computed/copies.ts.onnx');
const NAMES = 'c.weight c.bias b.weight b.bias b.running_mean b.running_var g.weight g.bias'.split(' ');

/** Values of one's own for every parameter and buffer. */
const state = new Map(
  NAMES.map((name, i) => {
    const dims = name === 'c.weight' ? [6, 3, 3, 3] : [6];
    const count = dims.reduce((product, size) => product * size, 1);
    const data = Float32Array.from({ length: count }, (_, k) => 1 + i + k / count);
    return [name, { dtype: 'float32' as const, dims, data }];
  }),
);

async function namesAfter(path: string): Promise<string[]> {
  const model = await openModel(path);
  return model
    .namedParameters()
    .filter(({ kind }) => kind !== 'constant')
    .map(({ name }) => name);
}

it('have their own names once their values differ: loaded files can be loaded again', async () => {
  const saved = join(scratchFolder(), 'loaded.onnx');
  const { model } = await loadStateDict(file, state);
  await model.save(saved);
  expect(await namesAfter(saved)).toEqual(NAMES);
  const { model: again } = await loadStateDict(saved, state);
  for (const parameter of again.namedParameters())
    if (parameter.kind !== 'constant')
      // oxlint-disable-next-line no-await-in-loop -- eight small tensors
      expect((await parameter.read()).data).toEqual(state.get(parameter.name)!.data);
  const changed = await (await openModel(file)).withParameters({ 'g.weight': { ...state.get('g.weight')! } });
  expect(changed.namedParameters().map(({ name }) => name)).toEqual(expect.arrayContaining(NAMES));
});

it('have their own names in what a trainer gives back', async () => {
  const saved = join(scratchFolder(), 'trained.onnx');
  const training = { loss: 'mse', optimizer: 'sgd', parameters: 'g' } as const;
  await using trainer = await createTrainer(file, training);
  expect([...(await trainer.stateDict()).keys()]).toEqual(NAMES);
  await (await trainer.model()).save(saved);
  expect(await namesAfter(saved)).toEqual(NAMES);
  await loadStateDict(saved, state);
});
