/** Weights in Constant nodes, as Paddle's exporter writes them, are weights everywhere. */
import { describe, expect, it } from 'vitest';
import { createFeatureExtractor, openModel, pruneModel, type OnnxModel, type Tensor } from 'onnx-tapir';
import { loadStateDict } from 'onnx-tapir/parameters';
import { profileModel, splitModel } from 'onnx-tapir/stages';
import { createTrainer } from 'onnx-tapir/train';
import { modelBytes, type GraphSpec, type NodeSpec } from '../../support/graphs.js';

const numbers = (count: number, start: number): number[] =>
  Array.from({ length: count }, (_, i) => Math.sin(start + i));
const constant = (name: string, dims: readonly number[], start: number): NodeSpec => ({
  op: 'Constant',
  outputs: [name],
  tensors: {
    value: {
      dims,
      values: numbers(
        dims.reduce((product, size) => product * size, 1),
        start,
      ),
    },
  },
});

const spec: GraphSpec = {
  inputs: [{ name: 'x', dims: ['n', 4] }],
  outputs: [{ name: 'y', dims: ['n', 3] }],
  nodes: [
    constant('fc_0.w_0', [4, 8], 1),
    constant('fc_0.b_0', [8], 2),
    constant('scale_0.w_0', [1], 3),
    constant('fc_1.w_0', [8, 3], 4),
    constant('grid', [3], 5),
    constant('epsilon', [1], 6),
    { op: 'MatMul', inputs: ['x', 'fc_0.w_0'], outputs: ['a'] },
    { op: 'Add', inputs: ['a', 'fc_0.b_0'], outputs: ['b'] },
    { op: 'Mul', inputs: ['b', 'scale_0.w_0'], outputs: ['c'] },
    { op: 'Relu', inputs: ['c'], outputs: ['d'] },
    { op: 'MatMul', inputs: ['d', 'fc_1.w_0'], outputs: ['e'] },
    { op: 'Sub', inputs: ['e', 'grid'], outputs: ['f'] },
    { op: 'Add', inputs: ['f', 'epsilon'], outputs: ['y'] },
  ],
};
const file = modelBytes(spec);
const x: Tensor = { dtype: 'float32', dims: [2, 4], data: Float32Array.from(numbers(8, 9)) };

async function outputOf(model: OnnxModel | Uint8Array): Promise<Float32Array> {
  const extractor = await createFeatureExtractor(model, ['y']);
  const { y } = await extractor.run(x);
  await extractor.close();
  return y!.data as Float32Array;
}

describe('weights in Constant nodes', () => {
  it('are listed, and numbers that no name proves to be learned are constants', async () => {
    const model = await openModel(file);
    expect(model.namedParameters().map(({ name, kind }) => [name, kind])).toEqual([
      ['fc_0.w_0', 'parameter'],
      ['fc_0.b_0', 'parameter'],
      ['scale_0.w_0', 'parameter'],
      ['fc_1.w_0', 'parameter'],
      ['grid', 'constant'],
    ]);
    const pruned = await pruneModel(model, ['b']);
    expect(pruned.parameters().map(({ name }) => name)).toEqual(['fc_0.w_0', 'fc_0.b_0']);
  });

  it('are counted, and stages are balanced by them', async () => {
    const { total } = await profileModel(file);
    expect(total).toMatchObject({ parameters: 65, buffers: 0, constants: 3, weightBytes: 4 * 69 });
    const { stages } = await splitModel(file, { stages: 2 }, { by: 'parameters' });
    expect(stages.map(({ parameters }) => parameters)).toEqual([32, 36]);
    await expect(splitModel(file, { stages: 2 }, { memoryBytes: 100 })).rejects.toMatchObject({
      code: 'SPLIT_IMPOSSIBLE',
    });
  });

  it('are loaded where they are', async () => {
    const model = await openModel(file);
    const state = new Map<string, Tensor>();
    for (const parameter of model.parameters()) {
      const { dims, data } = await parameter.read();
      state.set(parameter.name, {
        dtype: 'float32',
        dims,
        data: Float32Array.from(data as Float32Array, (v) => 2 * v),
      });
    }
    const { model: loaded } = await loadStateDict(model, state);
    const doubled = modelBytes({
      ...spec,
      nodes: spec.nodes.map((node) => {
        const value = node.tensors?.['value'] as { dims: number[]; values: number[] } | undefined;
        if (!value || !state.has(node.outputs[0]!)) return node;
        const values = value.values.map((number) => 2 * Math.fround(number));
        return { op: 'Constant', outputs: node.outputs, tensors: { value: { dims: value.dims, values } } };
      }),
    });
    expect(await outputOf(loaded)).toEqual(await outputOf(doubled));
    expect(loaded.nodes).toHaveLength(model.nodes.length);
  });

  it('are trained', async () => {
    await using trainer = await createTrainer(file, {
      loss: 'mse',
      optimizer: { kind: 'sgd', lr: 0.05 },
      parameters: ['fc_1.w_0', 'fc_0.b_0'],
      inputSizes: { n: 2 },
    });
    const target: Tensor = { dtype: 'float32', dims: [2, 3], data: Float32Array.of(1, 0, 0, 0, 1, 0) };
    const first = await trainer.step({ input: x, target });
    let last = first;
    for (let i = 0; i < 20; i++) last = await trainer.step({ input: x, target });
    expect(last.loss).toBeLessThan(first.loss);
    const trained = await trainer.model();
    expect(await outputOf(trained)).not.toEqual(await outputOf(file));
  });
});
