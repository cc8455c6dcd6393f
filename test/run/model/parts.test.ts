/** Parts computed in the graph: image input, pooling, normalisation, tokens to a map, half precision; and inputs inside it. */
import {
  createFeatureExtractor,
  createTransform,
  describeFeatures,
  loadImage,
  openModel,
  pruneModel,
  type Extractor,
  type PruneOptions,
  type Tensor,
  type TensorLike,
} from 'onnx-tapir';
import { afterAll, describe, expect, it } from 'vitest';
import { projectPath, tinyResNet } from '../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../support/graphs.js';

const open: { close(): Promise<void> }[] = [];
afterAll(() => Promise.all(open.map((extractor) => extractor.close())));

function keep<Opened extends Extractor>(extractor: Opened): Opened {
  open.push(extractor);
  return extractor;
}

const session = { graphOptimizationLevel: 'disabled' } as const;

function waves(dims: readonly number[]): TensorLike {
  const count = dims.reduce((product, size) => product * size, 1);
  return {
    dtype: 'float32',
    dims,
    data: Float32Array.from({ length: count }, (_, i) => Math.sin(i * 0.7) * 2),
  };
}

/** Tokens `[n, 5 or 17, 4]` after a MatMul, as in a ViT. */
function tokens(count: number, opset = 17): Uint8Array {
  const spec: GraphSpec = {
    inputs: [{ name: 'x', dims: ['n', count, 3] }],
    outputs: [{ name: 'y', dims: ['n', count, 4] }],
    initializers: { w: { dims: [3, 4], values: Array.from({ length: 12 }, (_, i) => Math.cos(i)) } },
    nodes: [{ op: 'MatMul', name: 'project', inputs: ['x', 'w'], outputs: ['y'] }],
  };
  return modelBytes(spec, { opset });
}

/** The mean over positions of each channel of `[rows, channels, positions]`. */
function reduce(
  { dims, data }: Tensor,
  pick: (row: number, channel: number) => number[],
): { dims: number[]; values: number[] } {
  const [rows = 0, channels = 0] = dims;
  const values: number[] = [];
  for (let row = 0; row < rows; row++)
    for (let channel = 0; channel < channels; channel++) {
      const list = pick(row, channel).map((at) => (data as Float32Array)[at]!);
      values.push(list.reduce((sum, value) => sum + value, 0) / list.length);
    }
  return { dims: [rows, channels], values };
}

function bitsOf({ data }: Tensor): Uint32Array {
  return new Uint32Array((data as Float32Array<ArrayBuffer>).buffer);
}

function expectClose(
  actual: Tensor,
  dims: readonly number[],
  values: readonly number[],
  epsilon = 1e-5,
): void {
  expect(actual.dims).toEqual(dims);
  values.forEach((value, i) =>
    expect(Math.abs((actual.data as Float32Array)[i]! - value)).toBeLessThanOrEqual(
      epsilon * (1 + Math.abs(value)),
    ),
  );
}

describe('pool, l2Normalize, outputDtype', () => {
  it('pools a map to a vector, per output', async () => {
    const extractor = keep(
      await createFeatureExtractor(
        tinyResNet(),
        { layer4: 'map', 'layer4.0': 'mean', layer3: 'max' },
        { pool: { mean: 'avg', max: 'max' }, session },
      ),
    );
    expect(extractor.outputs.map(({ dims, layout, channels }) => [dims, layout, channels])).toEqual([
      [['batch', 128, 2, 2], 'NCHW', 128],
      [['batch', 128], 'NC', 128],
      [['batch', 64], 'NC', 64],
    ]);
    const { map, mean, max } = await extractor.run(waves([2, 3, 64, 64]));
    const expected = reduce(map, (row, channel) => [0, 1, 2, 3].map((at) => (row * 128 + channel) * 4 + at));
    expectClose(mean, expected.dims, expected.values);
    expect(max.dims).toEqual([2, 64]);
  });

  it.each([11, 17, 18])('normalises to unit length, in operator set %i', async (opset) => {
    const extractor = keep(
      await createFeatureExtractor(
        tokens(5, opset),
        { y: 'unit' },
        { pool: 'cls', l2Normalize: true, session },
      ),
    );
    const plain = keep(await createFeatureExtractor(tokens(5, opset), ['y'], { session }));
    const feed = waves([2, 5, 3]);
    const { y } = await plain.run(feed);
    const { unit } = await extractor.run(feed);
    const first = [0, 1].map((row) => [...(y.data as Float32Array)].slice(row * 20, row * 20 + 4));
    const values = first.flatMap((row) => row.map((value) => value / Math.hypot(...row)));
    expectClose(unit, [2, 4], values);
    const zero = await extractor.run({ dtype: 'float32', dims: [1, 5, 3], data: new Float32Array(15) });
    expect([...(zero.unit.data as Float32Array)]).toEqual([0, 0, 0, 0]);
  });

  it('gives half precision', async () => {
    const extractor = keep(
      await createFeatureExtractor(tinyResNet(), { avgpool: 'f' }, { outputDtype: 'float16', pool: 'avg' }),
    );
    expect(extractor.outputs[0]).toMatchObject({ name: 'f', dtype: 'float16', dims: ['batch', 128] });
    const { f } = await extractor.run(waves([1, 3, 64, 64]));
    expect(f.data).toBeInstanceOf(Uint16Array);
  });

  it('turns patch tokens into a map, and averages them, without the class token', async () => {
    const plain = keep(await createFeatureExtractor(tokens(5), ['y'], { session }));
    const parts = keep(
      await createFeatureExtractor(
        tokens(5),
        [
          ['y', 'map'],
          ['project', 'mean'],
        ],
        { tokensToMap: { map: true }, pool: { mean: 'mean-tokens' }, session },
      ),
    );
    const feed = waves([3, 5, 3]);
    const { y } = await plain.run(feed);
    const { map, mean } = await parts.run(feed);
    const at = (row: number, channel: number): number[] =>
      [1, 2, 3, 4].map((token) => (row * 5 + token) * 4 + channel);
    const data = y.data as Float32Array;
    const rows = [0, 1, 2];
    const channels = [0, 1, 2, 3];
    const moved = rows.flatMap((row) => channels.flatMap((channel) => at(row, channel).map((i) => data[i]!)));
    expect(map.dims).toEqual([3, 4, 2, 2]);
    expect([...(map.data as Float32Array)]).toEqual(moved);
    const means = rows.flatMap((row) =>
      channels.map((channel) => at(row, channel).reduce((sum, i) => sum + data[i]!, 0) / 4),
    );
    expectClose(mean, [3, 4], means);
  });

  it.each([
    ['cls', 'layer4'],
    ['mean-tokens', 'layer4'],
    ['avg', 'flatten'],
  ] as const)('refuses pool %s of %s', async (pool, name) => {
    await expect(pruneModel(tinyResNet(), [name], { pool })).rejects.toMatchObject({ code: 'OUTPUT_MISFIT' });
  });

  it('refuses tokens that are no grid, and what the operator set cannot express', async () => {
    await expect(pruneModel(tokens(27), ['y'], { tokensToMap: true })).resolves.toBeDefined();
    await expect(pruneModel(tokens(34), ['y'], { tokensToMap: true })).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
      message: expect.stringContaining('34 tokens') as string,
    });
    await expect(pruneModel(tokens(5, 5), ['y'], { outputDtype: 'float16' })).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
      message: expect.stringContaining('runs Cast, which must be added, from operator set 6 on') as string,
    });
  });

  it('refuses options for outputs that are not asked for', async () => {
    await expect(pruneModel(tinyResNet(), ['layer4'], { pool: { layer3: 'avg' } })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
    const { plan } = await pruneModel(tinyResNet(), ['layer4'], { pool: new Map([['layer4', 'avg']]) });
    expect(plan.resolved[0]?.computed).toEqual(['pool avg']);
    const input = { type: 'image-uint8', Mean: [0, 0, 0] } as const;
    await expect(pruneModel(tinyResNet(), ['layer4'], { input })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });
});

describe('where the channels stand', () => {
  const spec = (nodes: GraphSpec['nodes']): Uint8Array =>
    modelBytes({
      inputs: [{ name: 'x', dims: ['n', 6, 6, 8] }],
      outputs: [{ name: 'y', dims: ['n', 6, 6, 8] }],
      initializers: { w: { dims: [8, 8], values: Array.from({ length: 64 }, (_, i) => i) } },
      nodes,
    });

  it('is taken from the operators: after a linear layer they are last', async () => {
    const linear = spec([{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }]);
    const { outputs } = keep(await createFeatureExtractor(linear, ['y'], { pool: 'avg' }));
    expect(outputs[0]).toMatchObject({ dims: ['n', 8], layout: 'NC' });
  });

  it('is not guessed: attention scores and plain inputs are refused', async () => {
    const scores = spec([{ op: 'MatMul', inputs: ['x', 'x'], outputs: ['y'] }]);
    for (const options of [{ pool: 'avg' }, { l2Normalize: true }] as const) {
      await expect(pruneModel(scores, ['y'], options)).rejects.toMatchObject({ code: 'OUTPUT_MISFIT' });
      await expect(pruneModel(scores, ['x'], options)).rejects.toMatchObject({ code: 'OUTPUT_MISFIT' });
    }
    // Listings may say what is likely.
    expect((await describeFeatures(scores, ['y']))[0]?.layout).toBe('NHWC');
  });

  it('tokens of an oblong image make an oblong map, wherever the graph is cut', async () => {
    const model = modelBytes({
      inputs: [
        { name: 'mask', dims: ['n', 1, 4, 4] },
        { name: 'x', dims: ['n', 3, 128, 288] },
      ],
      outputs: [{ name: 'y', dims: ['n', 144, 4] }],
      initializers: {
        shape: { dims: [3], values: [0, 144, -1], elemType: 'int64' },
        w: { dims: [768, 4], values: Array.from({ length: 3072 }, (_, i) => i % 7) },
      },
      nodes: [
        { op: 'Reshape', inputs: ['x', 'shape'], outputs: ['t'] },
        { op: 'MatMul', inputs: ['t', 'w'], outputs: ['y'] },
      ],
    });
    const pruned = await pruneModel(model, { y: 'map' }, { tokensToMap: true });
    const { outputs } = await openModel(await pruned.bytes());
    expect(outputs[0]?.dims).toEqual(['n', 4, 8, 18]);
  });
});

describe('names of added tensors', () => {
  it('leave the outputs’ own names to them', async () => {
    const model = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3, 4, 4] }],
      outputs: [{ name: 'y', dims: ['n', 3, 4, 4] }],
      nodes: [{ op: 'Relu', name: 'relu', inputs: ['x'], outputs: ['y'] }],
    });
    const pruned = await pruneModel(model, { relu: 'image' }, { input: 'image-uint8' });
    const written = await openModel(await pruned.bytes());
    expect(written.inputs.map(({ name }) => name)).toEqual(['image_1']);
    expect(written.outputs.map(({ name }) => name)).toEqual(['image']);
    const extractor = keep(await createFeatureExtractor(await pruned.bytes(), ['image']));
    expect(extractor.outputs).toHaveLength(1);
  });
});

describe('image-uint8', () => {
  it('normalises in the graph, bit for bit as the transform', async () => {
    const transform = createTransform({ resize: 64, crop: 64 });
    const image = await loadImage(projectPath('examples/photos/city/city-0.jpg'), transform);
    const request = { avgpool: 'f' } as const;
    const floats = keep(await createFeatureExtractor(tinyResNet(), request, { session }));
    const pixels = keep(
      await createFeatureExtractor(tinyResNet(), request, { session, input: 'image-uint8' }),
    );
    expect(pixels.inputs).toEqual([{ name: 'image', dtype: 'uint8', dims: ['batch', 64, 64, 3] }]);
    const expected = await floats.run(image.toTensor());
    const actual = await pixels.run({ dtype: 'uint8', dims: [1, 64, 64, 3], data: image.data });
    expect(bitsOf(actual.f)).toEqual(bitsOf(expected.f));
  });

  it('refuses a model without an image input', async () => {
    await expect(pruneModel(tokens(5), ['y'], { input: 'image-uint8' })).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
    });
    const input = { type: 'image-uint8', mean: [0.5], std: [0.5, 0.5] } as const;
    await expect(pruneModel(tinyResNet(), ['fc'], { input })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });

  it('takes a name that is free in every scope', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 3, 4, 4] }, 'image'],
      outputs: [{ name: 'y', dims: ['n', 3, 4, 4] }],
      nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }],
    };
    const pruned = await pruneModel(modelBytes(spec), ['y', 'image'], { input: 'image-uint8' });
    expect(pruned.plan.added.inputs).toEqual(['image_1']);
    const model = await openModel(await pruned.bytes());
    expect(model.inputs.map(({ name }) => name).toSorted()).toEqual(['image', 'image_1']);
  });
});

describe('inputs', () => {
  it('cuts at tensors inside the graph, with the full graph’s values', async () => {
    const whole = keep(
      await createFeatureExtractor(tinyResNet(), { layer2: 'inside', avgpool: 'f' }, { session }),
    );
    const tail = keep(
      await createFeatureExtractor(tinyResNet(), { avgpool: 'f' }, { inputs: ['layer2'], session }),
    );
    expect(tail.inputs).toEqual([
      { name: '/layer2/layer2.0/relu_2/Relu_output_0', dtype: 'float32', dims: ['batch', 32, 8, 8] },
    ]);
    const { inside, f } = await whole.run(waves([2, 3, 64, 64]));
    expect((await tail.run(inside)).f.data).toEqual(f.data);
    expect(tail.model.plan.dropped.inputs).toEqual(['input']);
    expect(tail.model.plan.dropped.nodes).toContain('/conv1/Conv');
  });

  it('lists all inputs that lack', async () => {
    const spec: GraphSpec = {
      inputs: ['a', 'b', 'c'],
      outputs: ['y'],
      nodes: [
        { op: 'Relu', inputs: ['a'], outputs: ['p'] },
        { op: 'Sum', inputs: ['p', 'b', 'c'], outputs: ['y'] },
      ],
    };
    await expect(pruneModel(modelBytes(spec), ['y'], { inputs: ['p'] })).rejects.toMatchObject({
      code: 'INPUTS_MISSING',
      details: { missing: ['b', 'c'] },
    });
    const { plan } = await pruneModel(modelBytes(spec), ['p'], { inputs: ['a', 'b'] });
    expect(plan.notes.join()).toContain('"b"');
    expect(plan.kept.inputs).toEqual(['a']);
  });

  it('feeds an output of a node that stays for another of its outputs', async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'a', dims: [4] }],
      outputs: [{ name: 'y', dims: [2] }],
      nodes: [
        { op: 'Split', inputs: ['a'], outputs: ['p', 'q'] },
        { op: 'Sub', inputs: ['p', 'q'], outputs: ['y'] },
      ],
    };
    const extractor = keep(
      await createFeatureExtractor(modelBytes(spec), ['y', 'p'], { inputs: ['a', 'p'], session }),
    );
    const { y, p } = await extractor.run({
      a: { dtype: 'float32', dims: [4], data: Float32Array.of(1, 2, 3, 4) },
      p: { dtype: 'float32', dims: [2], data: Float32Array.of(10, 20) },
    });
    expect([...(y.data as Float32Array)]).toEqual([7, 16]);
    expect([...(p.data as Float32Array)]).toEqual([10, 20]);
  });

  it('refuses a weight as input', async () => {
    await expect(pruneModel(tokens(5), ['y'], { inputs: ['x', 'w'] })).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
    });
  });
});

describe('fillTypes', () => {
  it('states what ONNX Runtime infers', async () => {
    const plain = await openModel(
      await (await pruneModel(tinyResNet(), ['layer3'], { fillTypes: false })).bytes(),
    );
    expect(plain.outputs[0]).toMatchObject({ dtype: null, dims: null });
    const filled = await openModel(await (await pruneModel(tinyResNet(), { layer3: 'f' })).bytes());
    expect(filled.outputs).toEqual([{ name: 'f', dtype: 'float32', dims: ['batch', 64, 4, 4] }]);
    const scalar = modelBytes({
      inputs: ['x'],
      outputs: ['y'],
      nodes: [
        { op: 'ReduceSum', inputs: ['x'], outputs: ['s'], ints: { keepdims: 0 } },
        { op: 'Mul', inputs: ['x', 's'], outputs: ['y'] },
      ],
    });
    const settled = await openModel(await (await pruneModel(scalar, ['s'])).bytes());
    expect(settled.outputs).toEqual([{ name: 's', dtype: 'float32', dims: [] }]);
  });

  it('states the sizes that follow from the inputs, not a batch that the exporter traced', async () => {
    const stale = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 4] }],
      outputs: ['z'],
      nodes: [
        { op: 'Relu', inputs: ['x'], outputs: ['y'] },
        { op: 'Add', inputs: ['y', 'w'], outputs: ['z'] },
      ],
      initializers: { w: { dims: [1, 4], values: [1, 2, 3, 4] } },
      valueInfos: [{ name: 'y', dims: [1, 4] }],
    });
    const outputsOf = async (options: Partial<PruneOptions>): Promise<unknown> =>
      (await openModel(await (await pruneModel(stale, { y: 'f' }, options)).bytes())).outputs;
    expect(await outputsOf({})).toEqual([{ name: 'f', dtype: 'float32', dims: ['n', 4] }]);
    expect(await outputsOf({ l2Normalize: true })).toEqual([{ name: 'f', dtype: 'float32', dims: ['n', 4] }]);
    expect(await outputsOf({ fillTypes: false })).toEqual([{ name: 'f', dtype: 'float32', dims: [1, 4] }]);
  });

  it('leaves open what no session tells, and says so', async () => {
    const custom = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 4] }],
      outputs: ['z'],
      nodes: [
        { op: 'Unheard', domain: 'local', inputs: ['x'], outputs: ['y'] },
        { op: 'Relu', inputs: ['y'], outputs: ['z'] },
      ],
    });
    const pruned = await pruneModel(custom, ['y']);
    // A session is asked when the file is written.
    expect(pruned.plan.notes).toEqual([]);
    expect((await openModel(await pruned.bytes())).outputs).toEqual([{ name: 'y', dtype: null, dims: null }]);
    expect(pruned.plan.notes).toEqual([expect.stringMatching(/^the types of "y" are not stated: /)]);
  });
});
