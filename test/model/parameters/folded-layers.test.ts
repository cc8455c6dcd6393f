/** Layers that exporters fold or compute in their own ways: transposed convolutions, other epsilons, computed weights. */
import { readFileSync } from 'node:fs';
import {
  createFeatureExtractor,
  loadStateDict,
  openModel,
  readStateDict,
  type LoadStateOptions,
  type StateDict,
} from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { fixturePath } from '../../support/fixtures.js';

const place = (file: string): string => fixturePath(`parameters/layers/${file}`);
const stateOf = (name: string, which: 'A' | 'B'): Promise<StateDict> =>
  readStateDict(place(`${name}.${which}.safetensors`));

/** The largest difference to what torch computes with the loaded weights, over the largest value. */
async function distanceOf(file: string, given: Partial<LoadStateOptions> = {}): Promise<number> {
  const name = file.split('.')[0]!;
  const { dims, input, expected } = JSON.parse(readFileSync(place(`${name}.json`), 'utf8')) as {
    readonly dims: readonly number[];
    readonly input: readonly number[];
    readonly expected: readonly number[];
  };
  const { model } = await loadStateDict(place(file), await stateOf(name, 'B'), given);
  const extractor = await createFeatureExtractor(model, ['y']);
  const { y } = await extractor.run({ dtype: 'float32', dims, data: Float32Array.from(input) });
  await extractor.close();
  const values = y!.data as Float32Array;
  const largest = Math.max(...expected.map(Math.abs));
  return Math.max(...expected.map((value, i) => Math.abs(value - values[i]!))) / largest;
}

describe('a transposed convolution, an epsilon of 1e-3, a norm after a linear layer', () => {
  it.each(['ts', 'dynamo'])('are folded again: %s', async (way) => {
    expect(await distanceOf(`deconv.${way}.onnx`)).toBeLessThan(1e-6);
    expect(await distanceOf(`deconv.${way}.onnx`, { reference: await stateOf('deconv', 'A') })).toBeLessThan(
      1e-6,
    );
  });

  it('are told as such', async () => {
    const model = await openModel(place('deconv.dynamo.onnx'));
    const origins = Object.fromEntries(model.namedParameters().map(({ name, origin }) => [name, origin]));
    expect(origins).toMatchObject({
      'up.weight': { kind: 'folded', layer: 'up', norm: 'bn', axis: 1 },
      'bn.running_var': { kind: 'folded', layer: 'up', norm: 'bn' },
      'pre.weight': { kind: 'exact' },
      'last.bias': { kind: 'exact' },
    });
  });
});

describe('norms that neither names nor order show', () => {
  it('are proven by the values of a reference, or by what dynamo wrote', async () => {
    expect(await distanceOf('odd.ts.onnx', { reference: await stateOf('odd', 'A') })).toBeLessThan(1e-6);
    expect(await distanceOf('odd.dynamo.onnx')).toBeLessThan(1e-6);
  });

  it('are refused without', async () => {
    await expect(distanceOf('odd.ts.onnx')).rejects.toMatchObject({
      code: 'STATE_AMBIGUOUS',
      details: { key: 'a.weight', candidates: ['p', 'q'] },
    });
    await expect(distanceOf('odd.ts.onnx', { reference: await stateOf('odd', 'B') })).rejects.toMatchObject({
      code: 'STATE_AMBIGUOUS',
    });
  });
});

describe('a weight that was computed of parameters', () => {
  it.each(['ts', 'dynamo'])('is refused by their names: %s', async (way) => {
    const reference = await stateOf('weight_norm', 'A');
    await expect(distanceOf(`weight_norm.${way}.onnx`, { reference })).rejects.toMatchObject({
      code: 'STATE_MISMATCH',
      details: {
        derived: expect.arrayContaining([
          'c.parametrizations.weight.original0',
          'c.parametrizations.weight.original1',
        ]) as string[],
      },
    });
    await expect(distanceOf(`weight_norm.${way}.onnx`)).rejects.toMatchObject({ code: 'STATE_MISMATCH' });
  });
});
