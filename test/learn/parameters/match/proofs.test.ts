/** What a load proves by a reference, takes by elimination, and refuses. */
import { describe, expect, it } from 'vitest';
import type { OnnxModel } from '../../../../src/run/model/open/open-model.js';
import { readStateDict } from '../../../../src/learn/parameters/dicts/read-state-dict.js';
import { loadStateDict, type LoadStateOptions } from '../../../../src/learn/parameters/load-state-dict.js';
import { fixturePath } from '../../../support/fixtures.js';
import { modelBytes, type NodeSpec, type WeightSpec } from '../../../support/graphs.js';
import { floats } from '../../../support/linear-models.js';

type Values = Readonly<Record<string, readonly number[]>>;

/** A model of TorchScript's with these tensors. */
function modelOf(
  initializers: Readonly<Record<string, WeightSpec>>,
  ...nodes: readonly NodeSpec[]
): Uint8Array {
  return modelBytes({
    inputs: [{ name: 'x', dims: ['n', 2, 1, 1] }],
    outputs: ['y'],
    initializers,
    nodes,
  });
}

/** A state dict of tensors by `name:dims`. */
function stateOf(values: Values): Map<string, ReturnType<typeof floats>> {
  return new Map(
    Object.entries(values).map(([name, own]) => {
      const [key, dims = ''] = name.split(':') as [string, string?];
      return [key, floats(dims === '' ? [] : dims.split(',').map(Number), own)];
    }),
  );
}

/** The values of the file's tensors by their names there. */
async function valuesIn(model: OnnxModel): Promise<Record<string, number[]>> {
  const found: Record<string, number[]> = {};
  for (const parameter of model.namedParameters()) {
    const { initializers, origin } = parameter;
    // oxlint-disable-next-line no-await-in-loop -- a few small tensors
    if (origin.kind === 'exact')
      found[initializers[0]!] = [...((await parameter.read()).data as Float32Array)];
  }
  return found;
}

async function load(
  bytes: Uint8Array,
  state: Values,
  reference?: Values,
  given: Partial<LoadStateOptions> = {},
): Promise<{ values: Record<string, number[]>; kinds: Record<string, string>; notes: readonly string[] }> {
  const { model, report } = await loadStateDict(bytes, stateOf(state), {
    ...given,
    reference: reference && stateOf(reference),
  });
  const kinds = Object.fromEntries(report.entries.map(({ key, origin }) => [key, origin.kind]));
  return { values: await valuesIn(model), kinds, notes: report.notes };
}

const conv = (weight: string, ...bias: readonly string[]): NodeSpec => ({
  op: 'Conv',
  name: '/Conv',
  inputs: ['x', weight, ...bias],
  outputs: ['y'],
});
/** `F.conv2d(x, …, fc.bias)` of the model's own code. */
const functional = (held: readonly number[]): Uint8Array =>
  modelOf(
    { 'onnx::Conv_6': { dims: [2, 2, 1, 1], values: held }, 'fc.bias': [0.5, 0.25] },
    conv('onnx::Conv_6', 'fc.bias'),
  );
const OLD = { 'fc.weight:2,2': [1, 2, 3, 5], 'fc.bias:2': [0.5, 0.25] };
const NEW = { 'fc.weight:2,2': [7, 8, 9, 10], 'fc.bias:2': [1, 2] };

describe('a linear layer as a convolution', () => {
  it('is loaded: proven by a reference, assumed without', async () => {
    const expected = { values: { 'onnx::Conv_6': [7, 8, 9, 10], 'fc.bias': [1, 2] } };
    const proven = await load(functional([1, 2, 3, 5]), NEW, OLD);
    expect(proven).toMatchObject({ ...expected, kinds: { 'fc.weight': 'reshaped' }, notes: [] });
    const assumed = await load(functional([1, 2, 3, 5]), NEW);
    expect(assumed).toMatchObject({ ...expected, kinds: { 'fc.weight': 'assumed', 'fc.bias': 'exact' } });
    expect(assumed.notes).toEqual([expect.stringMatching(/^assumed.*: fc\.weight; .*reference/)]);
  });

  it('is refused where only what is proven may be loaded', async () => {
    await expect(load(functional([1, 2, 3, 5]), NEW, undefined, { strict: 'proven' })).rejects.toMatchObject({
      code: 'STATE_AMBIGUOUS',
      details: { key: 'fc.weight' },
    });
    await load(functional([1, 2, 3, 5]), NEW, OLD, { strict: 'proven' });
    await expect(load(functional([1, 2, 3, 5]), NEW, OLD, { strict: 'all' as never })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });
});

describe('with a tensor that the reference does not explain', () => {
  it('no key is absent, and the error names both', async () => {
    const gain = { 'gain:2,1': [2, 3] };
    const error = { code: 'STATE_MISMATCH', details: { unexplained: ['onnx::Conv_6'] } };
    await expect(
      load(functional([2, 4, 9, 15]), { ...NEW, ...gain }, { ...OLD, ...gain }),
    ).rejects.toMatchObject(error);
    // Of a module that runs nothing, and is not around the one that reads the tensor.
    const far = { 'far.text.weight:2,2': [2, 3, 4, 6] };
    await expect(
      load(functional([2, 4, 9, 15]), { ...NEW, ...far }, { ...OLD, ...far }),
    ).rejects.toMatchObject(error);
  });

  it('a key of ones or zeros may be in one that has another key’s values', async () => {
    for (const neutral of [
      { 'gain:2,1': [1, 1] },
      { 'delta:2,2': [0, 0, 0, 0] },
      { 'turn:2,2': [1, 0, 0, 1] },
    ])
      // oxlint-disable-next-line no-await-in-loop -- one refusal after the other
      await expect(
        load(functional([1, 2, 3, 5]), { ...NEW, ...neutral }, { ...OLD, ...neutral }),
      ).rejects.toMatchObject({
        code: 'STATE_MISMATCH',
        details: { unexpected: Object.keys(neutral).map((key) => key.split(':')[0]) },
      });
  });

  it('keys are absent where all is explained', async () => {
    const rest = { 'text.weight:2,2': [2, 3, 4, 6], 'scale:': [0.5] };
    const { model, report } = await loadStateDict(functional([1, 2, 3, 5]), stateOf({ ...NEW, ...rest }), {
      reference: stateOf({ ...OLD, ...rest }),
    });
    expect(report.absent).toEqual(['text.weight', 'scale']);
    expect((await valuesIn(model))['onnx::Conv_6']).toEqual([7, 8, 9, 10]);
  });
});

it('a matrix in another order of axes is proven by its values', async () => {
  const held = { 'onnx::Conv_6': { dims: [2, 2, 1, 1], values: [1, 3, 2, 5] }, 'fc.bias': [0.5, 0.25] };
  const { values } = await load(modelOf(held, conv('onnx::Conv_6', 'fc.bias')), NEW, OLD);
  expect(values['onnx::Conv_6']).toEqual([7, 9, 8, 10]);
});

describe('a matrix that the model’s own code multiplies with', () => {
  const product = (name: string): Uint8Array =>
    modelBytes({
      inputs: [{ name: 'x', dims: ['n', 2] }],
      outputs: ['y'],
      initializers: { 'onnx::MatMul_7': { dims: [2, 2], values: [1, 3, 2, 5] } },
      nodes: [{ op: 'MatMul', name, inputs: ['x', 'onnx::MatMul_7'], outputs: ['y'] }],
    });

  it('is assumed: it may be weight * 0.3', async () => {
    expect(await load(product('/MatMul'), { 'weight:2,2': [7, 8, 9, 10] })).toMatchObject({
      kinds: { weight: 'assumed' },
      notes: [expect.stringContaining('weight') as string],
    });
    await expect(
      load(product('/MatMul'), { 'weight:2,2': [7, 8, 9, 10] }, { 'weight:2,2': [2, 4, 6, 10] }),
    ).rejects.toMatchObject({ code: 'STATE_MISMATCH', details: { unexplained: ['onnx::MatMul_7'] } });
  });

  it('is a layer’s where the layer runs it', async () => {
    const state = { 'fc.weight:2,2': [7, 8, 9, 10] };
    expect(await load(product('/fc/MatMul'), state, undefined, { strict: 'proven' })).toMatchObject({
      kinds: { 'fc.weight': 'transposed' },
      notes: [],
    });
  });
});

describe.each(['ts', 'dynamo'])('axes of 1 that an exporter added: %s', (way) => {
  const fixture = (name: string): string => fixturePath(`parameters/reshaped/${name}`);

  it('leave a parameter what it is, with a reference and without', async () => {
    const [reference, state] = [
      await readStateDict(fixture('A.safetensors')),
      await readStateDict(fixture('B.safetensors')),
    ];
    const file = fixture(`reshaped.${way}.onnx`);
    const proven = await loadStateDict(file, state, { reference, strict: 'proven' });
    const { model, report } = await loadStateDict(file, state);
    const kinds = new Map(report.entries.map(({ key, origin }) => [key, origin.kind]));
    expect(Object.fromEntries(kinds)).toMatchObject({
      'act.weight': 'reshaped',
      'block.gamma': 'assumed',
      'fc.weight': 'assumed',
    });
    expect(report.notes).toHaveLength(1);
    expect(proven.report).toMatchObject({ absent: [], notes: [] });
    const values = await valuesIn(model);
    expect(values).toEqual(await valuesIn(proven.model));
    for (const key of ['act.weight', 'block.gamma', 'fc.weight']) {
      // oxlint-disable-next-line no-await-in-loop -- three small tensors
      const { data } = await state.get(key)!.read();
      expect(Object.values(values), key).toContainEqual([...(data as Float32Array)]);
    }
  });
});
