/** Names of parameters, read from names and structure alone. */
import { describe, expect, it } from 'vitest';
import { createModel, loadStateDict, openModel, type OnnxModel, type Tensor } from 'onnx-tapir';
import { modelBytes, type GraphSpec } from '../../support/graphs.js';

const square = { dims: [2, 2], values: [1, 2, 3, 4] };
const filter = { dims: [1, 1, 1, 1], values: [2] };

async function listed(spec: Omit<GraphSpec, 'inputs' | 'outputs'>): Promise<unknown[]> {
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

  it('are one for a module that runs twice', async () => {
    const nodes = [
      { op: 'Gemm', name: '/a/Gemm', inputs: ['x', 'a.weight'], outputs: ['p'] },
      { op: 'Gemm', name: '/a_1/Gemm', inputs: ['p', 'a.weight'], outputs: ['y'] },
    ];
    expect(await listed({ initializers: { 'a.weight': square }, nodes })).toEqual([
      ['a.weight', 'exact', [2, 2]],
    ]);
  });

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

describe('the parameters of other files', () => {
  it('have the initializers’ names, where an operator takes weights', async () => {
    const initializers = { 'dense/kernel:0': square, scale_of_something: [2, 2] };
    const nodes = [
      { op: 'MatMul', name: 'dense', inputs: ['x', 'dense/kernel:0'], outputs: ['p'] },
      { op: 'Mul', name: 'mul', inputs: ['p', 'scale_of_something'], outputs: ['y'] },
    ];
    expect(await listed({ initializers, nodes })).toEqual([['dense/kernel:0', 'exact', [2, 2]]]);
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
