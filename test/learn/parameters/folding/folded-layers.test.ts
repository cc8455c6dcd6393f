/** Layers that exporters fold or compute in their own ways: transposed convolutions, other epsilons, computed weights. */
import { readFileSync } from 'node:fs';
import { createFeatureExtractor, openModel, type OnnxModel } from 'onnx-tapir';
import { loadStateDict, readStateDict, type LoadStateOptions, type StateDict } from 'onnx-tapir/parameters';
import { createModel } from 'onnx-tapir/zoo';
import { describe, expect, it } from 'vitest';
import { recogniseNetwork } from '../../../../src/onnx/networks/families/recognise-network.js';
import { fixturePath } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';

const place = (file: string): string => fixturePath(`parameters/layers/${file}`);
const stateOf = (name: string, which: 'A' | 'B'): Promise<StateDict> =>
  readStateDict(place(`${name}.${which}.safetensors`));

interface Facts {
  readonly dims: readonly number[];
  readonly input: readonly number[];
  readonly expected: readonly number[];
}

function factsOf(name: string): Facts {
  return JSON.parse(readFileSync(place(`${name}.json`), 'utf8')) as Facts;
}

async function outputOf(model: OnnxModel, name: string): Promise<Float32Array> {
  const { dims, input } = factsOf(name);
  const extractor = await createFeatureExtractor(model, ['y']);
  const { y } = await extractor.run({ dtype: 'float32', dims, data: Float32Array.from(input) });
  await extractor.close();
  return y!.data as Float32Array;
}

/** The largest difference to what torch computes with the loaded weights, over the largest value. */
async function distanceOf(file: string, given: Partial<LoadStateOptions> = {}): Promise<number> {
  const name = file.split('.')[0]!;
  const { expected } = factsOf(name);
  const { model } = await loadStateDict(place(file), await stateOf(name, 'B'), given);
  const values = await outputOf(model, name);
  const largest = Math.max(...expected.map(Math.abs));
  return Math.max(...expected.map((value, i) => Math.abs(value - values[i]!))) / largest;
}

describe('a transposed convolution, an epsilon of 1e-3, a norm after a linear layer', () => {
  it.each(['ts', 'dynamo'])('are folded again: %s', async (way) => {
    expect(await distanceOf(`deconv.${way}.onnx`, { epsilon: 1e-5 })).toBeLessThan(1e-6);
    expect(await distanceOf(`deconv.${way}.onnx`, { reference: await stateOf('deconv', 'A') })).toBeLessThan(
      1e-6,
    );
  });

  it('are refused where the norms of the file have different epsilons', async () => {
    await expect(distanceOf('deconv.ts.onnx')).rejects.toMatchObject({
      code: 'STATE_AMBIGUOUS',
      message: expect.stringMatching(/epsilon of "norm".*option "epsilon".*option "reference"/s) as string,
    });
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

describe('norms whose weights are zero', () => {
  it.each(['ts', 'dynamo'])('are those that the values leave and structure picks: %s', async (way) => {
    expect(await distanceOf(`zeroed.${way}.onnx`, { reference: await stateOf('zeroed', 'A') })).toBeLessThan(
      1e-6,
    );
  });

  it('need no epsilon while they keep their weights', async () => {
    const source = await openModel(place('zeroed.dynamo.onnx'));
    expect((await loadStateDict(source, await stateOf('zeroed', 'A'))).report.missing).toEqual([]);
  });
});

describe('what a listing proves, a load takes', () => {
  it.each(['distilled.ts', 'distilled.dynamo', 'borrowed.ts', 'borrowed.dynamo'])('%s', async (file) => {
    const [name] = file.split('.');
    const state = await stateOf(name!, 'B');
    const named = (await openModel(place(`${file}.onnx`))).namedParameters();
    const own = named.filter(({ kind }) => kind !== 'constant').map((parameter) => parameter.name);
    expect(own.toSorted()).toEqual([...state.keys()].toSorted());
    expect(await distanceOf(`${file}.onnx`)).toBeLessThan(1e-6);
    expect(await distanceOf(`${file}.onnx`, { reference: await stateOf(name!, 'A') })).toBeLessThan(1e-6);
  });

  it.each(['ts', 'dynamo'])(
    'and a constant with the values of a parameter holds no other: %s',
    async (way) => {
      const reference = await stateOf('resampled', 'A');
      expect(await distanceOf(`resampled.${way}.onnx`, { reference })).toBeLessThan(1e-6);
    },
  );
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

describe('the epsilon of a folded norm', () => {
  it('is not that of another part of the network, even where that keeps its weights', async () => {
    const [own, other] = [await stateOf('epsilon', 'A'), await stateOf('epsilon', 'B')];
    const isHead = (key: string): boolean => key.startsWith('head');
    const tuned = new Map([...own].map(([key, value]) => [key, isHead(key) ? other.get(key)! : value]));
    for (const state of [tuned, other])
      await expect(loadStateDict(place('epsilon.ts.onnx'), state)).rejects.toMatchObject({
        code: 'STATE_AMBIGUOUS',
        details: { key: 'head.1.running_var' },
      });
    // The backbone has a norm that was not folded.
    const head = new Map([...other].map(([key, value]) => [key, isHead(key) ? own.get(key)! : value]));
    const { model, report } = await loadStateDict(place('epsilon.ts.onnx'), head);
    expect(report.notes).toEqual([]);
    const { model: proven } = await loadStateDict(place('epsilon.ts.onnx'), head, { reference: own });
    const [values, wanted] = [await outputOf(model, 'epsilon'), await outputOf(proven, 'epsilon')];
    wanted.forEach((value, i) => expect(values[i]).toBeCloseTo(value, 5));
  });

  it('is proven by the weights that the file was exported with', async () => {
    const own = await stateOf('epsilon', 'A');
    const source = await openModel(place('epsilon.ts.onnx'));
    const { model } = await loadStateDict(source, own);
    expect(model).toBe(source);
    expect(await distanceOf('epsilon.ts.onnx', { reference: own })).toBeLessThan(1e-6);
    expect(await distanceOf('epsilon.dynamo.onnx')).toBeLessThan(1e-6);
    expect(await distanceOf('epsilon.dynamo.onnx', { reference: own })).toBeLessThan(1e-6);
  });
});

describe('parameters that were equal', () => {
  it.each(['scales.ts', 'scales.dynamo', 'parallel.ts'])('get their own values: %s', async (file) => {
    const name = file.split('.')[0]!;
    expect(await distanceOf(`${file}.onnx`)).toBeLessThan(1e-6);
    expect(await distanceOf(`${file}.onnx`, { reference: await stateOf(name, 'A') })).toBeLessThan(1e-6);
  });

  it('have names of their own', async () => {
    const model = await openModel(place('scales.dynamo.onnx'));
    const names = model.namedParameters().map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['blocks.0.gamma_1', 'blocks.1.gamma_2']));
    expect(new Set(names).size).toBe(names.length);
  });

  it('are refused where the exporter merged whole nodes', async () => {
    for (const given of [{}, { reference: await stateOf('parallel', 'A') }])
      await expect(distanceOf('parallel.dynamo.onnx', given)).rejects.toMatchObject({
        code: 'STATE_MISMATCH',
        details: { unexpected: ['b.bias', 'b.weight'] },
      });
  });

  it.each([true, false])('are refused where nothing tells them apart (strict: %s)', async (strict) => {
    // Without what dynamo writes about nodes, and the Identity nodes of TorchScript.
    const ones = { dims: [2], data: Float32Array.of(1, 1) };
    const bytes = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 2] }],
      outputs: ['y'],
      initializers: { 'block.gamma_1': [1, 1] },
      nodes: [
        { op: 'Mul', name: '/block/Mul', inputs: ['x', 'block.gamma_1'], outputs: ['a'] },
        { op: 'Relu', name: '/block/act/Relu', inputs: ['a'], outputs: ['b'] },
        { op: 'Mul', name: '/block/Mul_1', inputs: ['b', 'block.gamma_1'], outputs: ['y'] },
      ],
    });
    const reference = new Map([
      ['block.gamma_1', ones],
      ['block.gamma_2', ones],
    ]);
    const state = new Map(reference).set('block.gamma_2', { dims: [2], data: Float32Array.of(2, 3) });
    for (const given of [{ strict }, { strict, reference }])
      await expect(loadStateDict(bytes, state, given)).rejects.toMatchObject({
        code: 'STATE_AMBIGUOUS',
        details: { key: 'block.gamma_2' },
      });
  });
});

describe('torchvision’s networks', () => {
  it('are recognised by their keys and dims, with the epsilon of their norms', async () => {
    const model = await createModel('mobilenet_v3_small', { numClasses: 3 });
    const state = new Map(model.namedParameters().map(({ name, dims }) => [name, { dims }]));
    const known = recogniseNetwork(state)!;
    expect(known.name).toBe('mobilenet_v3_small');
    expect(known.epsilons.get('features.0.1')).toBe(1e-3);
    expect(recogniseNetwork(new Map(state).set('other.weight', { dims: [1] }))).toBeUndefined();
    expect(recogniseNetwork(new Map(state).set('features.0.1.weight', { dims: [8] }))).toBeUndefined();
  });
});
