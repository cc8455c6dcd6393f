/** Costs: counts by hand, the fixtures' counts, and times. */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { openModel } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { profileModel, type ModelProfile } from 'onnx-tapir/stages';
import { describe, expect, it } from 'vitest';
import { fixturePath, projectPath, tinyResNet } from '../../support/fixtures.js';
import { modelBytes, type GraphSpec, type WeightSpec } from '../../support/graphs.js';

const zeros = (...dims: number[]): WeightSpec => ({
  dims,
  values: Array.from({ length: dims.reduce((product, size) => product * size, 1) }, () => 0),
});
const bytesOf = (name: string): Uint8Array => gunzipSync(readFileSync(fixturePath(`stages/${name}.gz`)));

interface Facts {
  readonly macs: number | { readonly all_outputs: number };
  readonly weights?: number;
  readonly node_macs?: readonly { readonly node: number; readonly macs: number }[];
}
const factsOf = (name: string): Facts => JSON.parse(Buffer.from(bytesOf(`${name}.json`)).toString()) as Facts;

describe('profileModel', () => {
  it.each(['resnet', 'vit', 'dense', 'unet', 'exitnet', 'exitvit'])(
    'counts %s as the fixture',
    async (name) => {
      const { macs, weights, node_macs: nodeMacs } = factsOf(name);
      const model = await openModel(bytesOf(`${name}.onnx`));
      const { nodes, total, uncounted } = await profileModel(model);
      expect(total.macs).toBe(typeof macs === 'number' ? macs : macs.all_outputs);
      expect(uncounted).toEqual([]);
      if (!nodeMacs) return;
      expect(total.parameters + total.buffers + total.constants).toBe(weights);
      expect(total.weightBytes).toBeGreaterThanOrEqual(4 * weights!);
      expect(nodes.flatMap((node) => (node.macs ? [node.macs] : []))).toEqual(
        nodeMacs.map((node) => node.macs),
      );
    },
  );

  // GFLOPS of torchvision's tables of weights (`meta["_ops"]`): of ONNX files of 56 networks, all agreed.
  it.each([
    ['squeezenet1_1', 224, 0.349],
    ['shufflenet_v2_x0_5', 224, 0.04],
    ['mobilenet_v3_small', 224, 0.057],
    ['regnet_y_400mf', 224, 0.402],
    ['resnet18', 224, 1.814],
    ['efficientnet_b0', 224, 0.386],
  ])('counts %s as torchvision', async (name, size, billions) => {
    const { total, uncounted } = await profileModel(await createModel(name), { inputSizes: size });
    expect(total.macs! / 1e9).toBeCloseTo(billions, 3);
    expect(uncounted).toEqual([]);
  });

  it('gives every node and module its costs, for any batch', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 3, 8, 8] }],
      outputs: ['y', 'z'],
      nodes: [
        { op: 'Conv', name: '/stem/proj/Conv', inputs: ['x', 'w'], outputs: ['c'] },
        { op: 'Relu', name: '/stem/relu/Relu', inputs: ['c'], outputs: ['r'] },
        { op: 'Flatten', name: '/Flatten', inputs: ['r'], outputs: ['f'] },
        { op: 'Gemm', name: '/one/Gemm', inputs: ['f', 'fc'], outputs: ['y'] },
        { op: 'Gemm', name: '/two/Gemm', inputs: ['f', 'fc'], outputs: ['z'] },
        { op: 'Gemm', name: '/dead/Gemm', inputs: ['f', 'fc'], outputs: ['unused'] },
      ],
      initializers: { w: zeros(4, 3, 3, 3), fc: zeros(144, 5) },
    };
    const { batch, inputs, nodes, modules, total } = await profileModel(modelBytes(spec), { batch: 2 });
    expect({ batch, inputs }).toEqual({
      batch: 2,
      inputs: [{ name: 'x', dtype: 'float32', dims: [2, 3, 8, 8] }],
    });
    const conv = {
      macs: 2 * 4 * 36 * 27,
      parameters: 4 * 27,
      buffers: 0,
      constants: 0,
      weightBytes: 4 * 108,
      activationBytes: 4 * 2 * 144,
      milliseconds: null,
    };
    const none = { macs: 0, parameters: 0, buffers: 0, constants: 0, weightBytes: 0, milliseconds: null };
    const gemm = {
      macs: 2 * 144 * 5,
      parameters: 720,
      buffers: 0,
      constants: 0,
      weightBytes: 2880,
      activationBytes: 40,
      milliseconds: null,
    };
    expect(nodes).toEqual([
      { name: 'stem.proj', op: 'Conv', module: 'stem.proj', ...conv },
      { name: 'stem.relu', op: 'Relu', module: 'stem.relu', ...none, activationBytes: 1152 },
      { name: 'f', op: 'Flatten', module: '', ...none, activationBytes: 1152 },
      { name: 'one', op: 'Gemm', module: 'one', ...gemm },
      { name: 'two', op: 'Gemm', module: 'two', ...gemm },
    ]);
    expect(modules).toMatchObject([
      { name: 'stem', nodes: 2, ...conv, activationBytes: 2 * 1152 },
      { name: 'stem.proj', nodes: 1 },
      { name: 'stem.relu', nodes: 1 },
      // The weights they share count in each, and once in the sum.
      { name: 'one', ...gemm },
      { name: 'two', ...gemm },
    ]);
    expect(total).toEqual({
      macs: conv.macs + 2 * gemm.macs,
      parameters: 108 + 720,
      buffers: 0,
      constants: 0,
      weightBytes: 432 + 2880,
      activationBytes: 3 * 1152 + 80,
      milliseconds: null,
    });
  });

  it('lists operators without a rule instead of counting zero', async () => {
    const branch = (op: string): GraphSpec => ({
      outputs: [{ name: 'o', dims: [3] }],
      nodes: [{ op, inputs: ['v'], outputs: ['o'] }],
    });
    const spec: GraphSpec = {
      inputs: [
        { name: 'x', dims: [1, 3] },
        { name: 'is', dims: [], elemType: 9 },
      ],
      outputs: [{ name: 'y', dims: [3] }],
      nodes: [
        { op: 'MatMul', inputs: ['x', 'w'], outputs: ['m'] },
        { op: 'Flatten', inputs: ['m'], outputs: ['v'] },
        {
          op: 'If',
          name: 'choice',
          inputs: ['is'],
          outputs: ['y'],
          bodies: { then_branch: branch('Relu'), else_branch: branch('Neg') },
        },
      ],
      initializers: { w: zeros(3, 3) },
    };
    const { nodes, total, uncounted } = await profileModel(modelBytes(spec));
    expect(nodes.map(({ op, macs }) => [op, macs])).toEqual([
      ['MatMul', 9],
      ['Flatten', 0],
      ['If', null],
    ]);
    expect(total.macs).toBe(9);
    expect(uncounted).toEqual([{ op: 'If', nodes: ['choice'] }]);
  });

  it('counts a quantised graph, whose weights have one byte', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 4] }],
      outputs: ['y'],
      nodes: [
        { op: 'DynamicQuantizeLinear', inputs: ['x'], outputs: ['q', 's', 'zero'] },
        { op: 'DynamicQuantizeLinear', inputs: ['w'], outputs: ['p', 't', 'zero_w'] },
        { op: 'MatMulInteger', inputs: ['q', 'p', 'zero', 'zero_w'], outputs: ['i'] },
        { op: 'Cast', inputs: ['i'], outputs: ['f'], ints: { to: 1 } },
        { op: 'Mul', inputs: ['f', 's'], outputs: ['y'] },
      ],
      initializers: { w: zeros(4, 6) },
    };
    const { nodes, total } = await profileModel(modelBytes(spec), { batch: 3 });
    expect(total.macs).toBe(3 * 6 * 4);
    expect(nodes.map(({ activationBytes }) => activationBytes)).toEqual([12 + 4 + 1, 24 + 4 + 1, 72, 72, 72]);
  });

  it('counts weights behind DequantizeLinear in the module whose layer reads them', async () => {
    const { modules } = await profileModel(projectPath('models/demo.onnx'));
    // Counted with onnx: 167,328 in int8; the rest are biases and scales.
    expect(modules.find(({ name }) => name === 'blocks.9')?.parameters).toBeGreaterThan(167_328);
  });

  it('finds sizes that only a run tells, and takes those that are given', async () => {
    const patches = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3, 'h', 'w'] }],
      outputs: ['y'],
      nodes: [
        { op: 'Shape', inputs: ['x'], outputs: ['s'] },
        { op: 'Slice', inputs: ['s', 'one', 'four', 'zero'], outputs: ['sides'] },
        { op: 'ReduceProd', inputs: ['sides'], outputs: ['pixels'], ints: { keepdims: 1 } },
        { op: 'Concat', inputs: ['first', 'pixels'], outputs: ['shape'], ints: { axis: 0 } },
        { op: 'Reshape', inputs: ['x', 'shape'], outputs: ['flat'] },
        { op: 'Transpose', inputs: ['flat'], outputs: ['turned'], ints: { perm: [1, 0] } },
        { op: 'MatMul', inputs: ['flat', 'turned'], outputs: ['y'] },
      ],
      initializers: {
        one: { dims: [1], values: [1], elemType: 'int64' },
        four: { dims: [1], values: [4], elemType: 'int64' },
        zero: { dims: [1], values: [0], elemType: 'int64' },
        first: { dims: [1], values: [-1], elemType: 'int64' },
      },
    });
    expect((await profileModel(patches)).total.macs).toBe(3 * 224 * 224);
    const { inputs, total } = await profileModel(patches, { batch: 2, inputSizes: { h: 10, w: 20 } });
    expect(inputs[0]!.dims).toEqual([2, 3, 10, 20]);
    expect(total.macs).toBe(2 * 2 * 600);
  });

  it('takes the batch that the model fixes, and no other', async () => {
    const fixed = modelBytes({
      inputs: [{ name: 'x', dims: [4, 3] }],
      outputs: ['y'],
      nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
      initializers: { w: zeros(3, 5) },
    });
    expect(await profileModel(fixed)).toMatchObject({ batch: 4, total: { macs: 60 } });
    await expect(profileModel(fixed, { batch: 2 })).rejects.toMatchObject({
      code: 'BATCH_FIXED',
      details: { batch: 4, rows: 2 },
    });
    // The declared batch is open, but a Reshape allows one row.
    const inside = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3] }],
      outputs: ['y'],
      nodes: [{ op: 'Reshape', inputs: ['x', 's'], outputs: ['y'] }],
      initializers: { s: { dims: [2], values: [1, 3], elemType: 'int64' } },
    });
    await expect(profileModel(inside, { batch: 2 })).rejects.toMatchObject({ code: 'BATCH_FIXED' });
  });

  it('takes a batch that also stands on a later axis, as in the state of a recurrent layer', async () => {
    const recurrent = (...names: readonly [string, string]): Uint8Array =>
      modelBytes({
        inputs: [
          { name: 'x', dims: [names[0], 3] },
          { name: 'state', dims: [2, names[1], 3] },
        ],
        outputs: ['y'],
        nodes: [
          { op: 'Add', inputs: ['x', 'state'], outputs: ['s'] },
          { op: 'MatMul', inputs: ['s', 'w'], outputs: ['y'] },
        ],
        initializers: { w: zeros(3, 5) },
      });
    for (const name of ['batch', 'n']) {
      const { batch, inputs, total } = await profileModel(recurrent(name, name), { batch: 4 });
      expect({ batch, macs: total.macs }).toEqual({ batch: 4, macs: 2 * 4 * 15 });
      expect(inputs[1]!.dims).toEqual([2, 4, 3]);
      expect((await profileModel(recurrent(name, name))).batch).toBe(1);
    }
    // A graph's edges: what one input has twice is no batch.
    const edges = modelBytes({
      inputs: [
        { name: 'x', dims: ['n', 3] },
        { name: 'a', dims: ['n', 'n'] },
      ],
      outputs: ['y'],
      nodes: [{ op: 'MatMul', inputs: ['a', 'x'], outputs: ['y'] }],
    });
    await expect(profileModel(edges, { batch: 4 })).rejects.toThrow('give whole shapes');
    expect((await profileModel(edges, { inputSizes: { n: 5 } })).total.macs).toBe(75);
  });

  it.each([
    [{ batch: 0 }, 'batch'],
    [{ threads: -1 }, 'threads'],
    [{ time: 'yes' as never }, 'time'],
    [{ inputSizes: { depth: 3 } }, 'inputSizes'],
  ])('refuses %o', async (options, option) => {
    await expect(profileModel(tinyResNet(), options)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option },
    });
  });

  it('times every node that depends on the input', async () => {
    const model = await openModel(bytesOf('vit.onnx'));
    const { nodes, modules, total }: ModelProfile = await profileModel(model, { time: true, threads: 1 });
    const timed = nodes.map(({ milliseconds }) => milliseconds!);
    expect(timed.every((time) => time >= 0)).toBe(true);
    const products = nodes.filter(({ macs }) => macs! > 0);
    expect(products.every(({ milliseconds }) => milliseconds! > 0)).toBe(true);
    expect(total.milliseconds).toBeCloseTo(
      timed.reduce((sum, time) => sum + time, 0),
      6,
    );
    const encoder = modules.find(({ name }) => name === 'encoder')!;
    expect(encoder.milliseconds).toBeGreaterThan(0);
    expect(encoder.milliseconds).toBeLessThan(total.milliseconds!);
  });
});
