/** Names of parameters, read from names and structure alone. */
import { describe, expect, it } from 'vitest';
import { createFeatureExtractor, openModel, type OnnxModel, type Tensor } from 'onnx-tapir';
import { loadStateDict } from 'onnx-tapir/parameters';
import { createModel } from 'onnx-tapir/zoo';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';

const square = { dims: [2, 2], values: [1, 2, 3, 4] };
const filter = { dims: [1, 1, 1, 1], values: [2] };

async function listed(
  spec: Omit<GraphSpec, 'inputs' | 'outputs'> & Partial<Pick<GraphSpec, 'inputs'>>,
): Promise<unknown[]> {
  const bytes = modelBytes({ inputs: [{ name: 'x', dims: ['n', 2] }], outputs: ['y'], ...spec });
  const model = await openModel(bytes);
  return model.namedParameters().map(({ name, origin, dims }) => [name, origin.kind, dims]);
}

describe('the parameters of a TorchScript file', () => {
  it('are transposed where the exporter renamed a matrix, and go by the bias beside them', async () => {
    const initializers = {
      'onnx::MatMul_5': { dims: [2, 3], values: [1, 2, 3, 4, 5, 6] },
      'attn.in_proj_bias': [0, 0, 0],
    };
    const nodes = [
      { op: 'MatMul', name: '/attn/MatMul', inputs: ['x', 'onnx::MatMul_5'], outputs: ['p'] },
      { op: 'Add', name: '/attn/Add', inputs: ['attn.in_proj_bias', 'p'], outputs: ['y'] },
    ];
    expect(await listed({ initializers, nodes })).toEqual([
      ['attn.in_proj_weight', 'transposed', [3, 2]],
      ['attn.in_proj_bias', 'exact', [3]],
    ]);
  });

  it('are told apart after Identity nodes', async () => {
    const nodes = [
      { op: 'Identity', inputs: ['a.weight'], outputs: ['b.weight'] },
      { op: 'Gemm', name: '/a/Gemm', inputs: ['x', 'a.weight'], outputs: ['p'] },
      { op: 'Gemm', name: '/b/Gemm', inputs: ['p', 'b.weight'], outputs: ['y'] },
    ];
    const model = await openModel(
      modelBytes({
        inputs: [{ name: 'x', dims: ['n', 2] }],
        outputs: ['y'],
        initializers: { 'a.weight': square },
        nodes,
      }),
    );
    expect(model.namedParameters().map(({ name, mergedWith }) => [name, mergedWith])).toEqual([
      ['a.weight', ['b.weight']],
      ['b.weight', ['a.weight']],
    ]);
  });

  it.each(['0', '1.0', '1x1'])(
    'go by numbers where a Sequential or a ModuleDict has them: %s',
    async (path) => {
      const scopes = path === '1.0' ? '/1/1.0' : `/${path}`;
      const [weight, bias] = [`${path}.weight`, `${path}.bias`];
      const nodes = [{ op: 'Conv', name: `${scopes}/Conv`, inputs: ['x', weight, bias], outputs: ['y'] }];
      const inputs = [{ name: 'x', dims: ['n', 1, 2, 2] }];
      expect(await listed({ inputs, initializers: { [weight]: filter, [bias]: [1] }, nodes })).toEqual([
        [weight, 'exact', [1, 1, 1, 1]],
        [bias, 'exact', [1]],
      ]);
    },
  );

  it.each(['w', 'scales.0', 'scales.inner'])(
    "are refused where the model's own code reads a constant that the exporter computed: %s",
    async (name) => {
      const bytes = modelBytes({
        inputs: [{ name: 'x', dims: ['n', 2] }],
        outputs: ['y'],
        // x @ w + w[0]
        initializers: { [name]: square, 'onnx::Add_6': [1, 2] },
        nodes: [
          { op: 'MatMul', name: '/MatMul', inputs: ['x', name], outputs: ['p'] },
          { op: 'Add', name: '/Add', inputs: ['p', 'onnx::Add_6'], outputs: ['y'] },
        ],
      });
      const state = (first: number): Map<string, Tensor> =>
        new Map([[name, { dtype: 'float32', dims: [2, 2], data: Float32Array.of(first, 2, 3, 4) }]]);
      await expect(
        loadStateDict(await openModel(bytes), state(5), { reference: state(1) }),
      ).rejects.toMatchObject({ code: 'STATE_MISMATCH', details: { derived: [name] } });
    },
  );

  it('get a bias that was zero where their module runs the layer, not where other code takes the weight alone', async () => {
    const load = (scope: string) =>
      loadStateDict(
        modelBytes({
          inputs: [{ name: 'x', dims: ['n', 2] }],
          outputs: ['y'],
          initializers: { 'a.weight': square },
          nodes: [{ op: 'Gemm', name: `${scope}/Gemm`, inputs: ['x', 'a.weight'], outputs: ['y'] }],
        }),
        new Map<string, Tensor>([
          ['a.weight', { dtype: 'float32', dims: [2, 2], data: Float32Array.of(5, 2, 3, 4) }],
          ['a.bias', { dtype: 'float32', dims: [2], data: Float32Array.of(1, 2) }],
        ]),
      );
    expect((await load('/a')).report.entries.map(({ key }) => key)).toEqual(['a.weight', 'a.bias']);
    await expect(load('')).rejects.toMatchObject({ details: { unexpected: ['a.bias'] } });
  });

  it('are one for a module that runs twice', async () => {
    const nodes = [
      { op: 'Gemm', name: '/a/Gemm', inputs: ['x', 'a.weight'], outputs: ['p'] },
      { op: 'Gemm', name: '/a_1/Gemm', inputs: ['p', 'a.weight'], outputs: ['y'] },
    ];
    expect(await listed({ initializers: { 'a.weight': square }, nodes })).toEqual([
      ['a.weight', 'exact', [2, 2]],
    ]);
  });

  it.each([true, false])(
    'are loaded wherever a transposed matrix is read again (with a bias: %s)',
    async (hasBias) => {
      const layer = (name: string, matrix: string, input: string, output: string) => [
        { op: 'MatMul', name: `/${name}/MatMul`, inputs: [input, matrix], outputs: [`${name}_p`] },
        hasBias
          ? { op: 'Add', name: `/${name}/Add`, inputs: ['a.bias', `${name}_p`], outputs: [output] }
          : { op: 'Relu', name: `/${name}/Relu`, inputs: [`${name}_p`], outputs: [output] },
      ];
      // As the exporter writes it: one transposed matrix for each run, the later ones as an Identity of the first.
      const model = modelBytes({
        inputs: [{ name: 'x', dims: ['n', 2] }],
        outputs: ['y'],
        initializers: { 'onnx::MatMul_7': square, ...(hasBias ? { 'a.bias': [1, 1] } : {}) },
        nodes: [
          { op: 'Identity', inputs: ['onnx::MatMul_7'], outputs: ['onnx::MatMul_8'] },
          ...layer('a', 'onnx::MatMul_7', 'x', 'q'),
          ...layer('a_1', 'onnx::MatMul_8', 'q', 'y'),
        ],
      });
      const tensor = (dims: number[], values: number[]): Tensor => ({
        dtype: 'float32',
        dims,
        data: Float32Array.from(values),
      });
      const state = (weight: number[], bias: number[]) =>
        new Map([
          ['a.weight', tensor([2, 2], weight)],
          ...(hasBias ? [['a.bias', tensor([2], bias)] as const] : []),
        ]);
      const wanted = state([2, 0, 1, 3], [5, 6]);
      for (const reference of [undefined, state([1, 3, 2, 4], [1, 1])]) {
        const { model: loaded, report } = await loadStateDict(model, wanted, { reference });
        expect(report.entries.map(({ key }) => key)).toEqual([...wanted.keys()]);
        await using extractor = await createFeatureExtractor(loaded, ['y']);
        const { y } = await extractor.run(tensor([1, 2], [1, 2]));
        // W·x + b is (2, 7) + b; twice.
        expect([...y!.data]).toEqual(hasBias ? [19, 52] : [4, 23]);
      }
    },
  );

  it('are folded where a convolution has neither its own weight nor its own bias', async () => {
    const conv = (weight: string, bias?: string) =>
      listed({
        initializers: { [weight]: filter, ...(bias === undefined ? {} : { [bias]: [1] }) },
        nodes: [
          {
            op: 'Conv',
            name: '/conv/Conv',
            inputs: ['x', weight, ...(bias === undefined ? [] : [bias])],
            outputs: ['y'],
          },
        ],
      });
    expect(await conv('onnx::Conv_1', 'onnx::Conv_2')).toEqual([['conv.weight', 'folded', [1, 1, 1, 1]]]);
    // A bias of zeros is dropped.
    expect(await conv('onnx::Conv_1')).toEqual([['conv.weight', 'folded', [1, 1, 1, 1]]]);
    expect(await conv('conv.weight', 'conv.bias')).toEqual([
      ['conv.weight', 'exact', [1, 1, 1, 1]],
      ['conv.bias', 'exact', [1]],
    ]);
  });
});

describe('tensors whose names prove nothing', () => {
  it('have their own names, also those of norms that are written as arithmetic', async () => {
    const initializers = {
      'onnx::Conv_1': filter,
      'onnx::Sub_2': { dims: [1, 1, 1, 2], values: [1, 2] },
      'onnx::Mul_3': { dims: [1, 1, 1, 2], values: [3, 4] },
      'onnx::Conv_4': filter,
    };
    const nodes = [
      { op: 'Conv', name: '/Conv', inputs: ['x', 'onnx::Conv_1'], outputs: ['a'] },
      { op: 'Sub', name: '/Sub', inputs: ['a', 'onnx::Sub_2'], outputs: ['b'] },
      { op: 'Mul', name: '/Mul', inputs: ['b', 'onnx::Mul_3'], outputs: ['c'] },
      { op: 'Conv', name: '/Conv_1', inputs: ['c', 'onnx::Conv_4'], outputs: ['y'] },
    ];
    expect(await listed({ initializers, nodes })).toEqual([
      ['onnx::Conv_1', 'exact', [1, 1, 1, 1]],
      ['onnx::Sub_2', 'exact', [1, 1, 1, 2]],
      ['onnx::Mul_3', 'exact', [1, 1, 1, 2]],
      ['onnx::Conv_4', 'exact', [1, 1, 1, 1]],
    ]);
  });
});

describe('the parameters of other files', () => {
  it('have the initializers’ names, where an operator takes weights', async () => {
    const initializers = { 'dense/kernel:0': square, scale_of_something: [2, 2] };
    const nodes = [
      { op: 'MatMul', name: 'dense', inputs: ['x', 'dense/kernel:0'], outputs: ['p'] },
      { op: 'Mul', name: 'mul', inputs: ['p', 'scale_of_something'], outputs: ['y'] },
    ];
    expect(await listed({ initializers, nodes })).toEqual([
      ['dense/kernel:0', 'exact', [2, 2]],
      ['scale_of_something', 'exact', [2]],
    ]);
  });
});

describe('torchvision’s networks', () => {
  // Tables of positions, parameters that torchvision lists as steps, hyphens in names.
  it.each(['regnet_y_400mf', 'swin_t', 'vit_b_16', 'mobilenet_v3_small'])(
    '%s has all its keys',
    async (name) => {
      const model = await createModel(name, { numClasses: 3 });
      const listedKeys = model.namedParameters().map((parameter) => parameter.name);
      expect(new Set(listedKeys).size).toBe(listedKeys.length);
      expect(model.namedParameters().every(({ origin }) => origin.kind === 'exact')).toBe(true);
      const { model: same, report } = await loadStateDict(model, await valuesOf(model));
      expect(report).toMatchObject({ missing: [], unexpected: [] });
      expect(same).toBe(model);
    },
  );
});

async function valuesOf(model: OnnxModel): Promise<Map<string, Tensor>> {
  const state = new Map<string, Tensor>();
  for (const parameter of model.namedParameters()) state.set(parameter.name, await parameter.read());
  return state;
}
