/** Verification: it finds no difference where there is none, and finds one where there is. */
import { createFeatureExtractor, describeFeatures, pruneModel, verifyModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { compareTensors } from '../../../../src/onnx/tensor/compare-tensors.js';
import type { Tensor } from '../../../../src/onnx/tensor/tensor.js';
import { tinyResNet } from '../../../support/fixtures.js';
import { modelBytes, type GraphSpec, type NodeSpec, type WeightSpec } from '../../../support/graphs.js';

describe('verifyModel', () => {
  it('finds the full graph’s values bit for bit', async () => {
    const pruned = await pruneModel(tinyResNet(), { layer2: 'a', avgpool: 'b' });
    const report = await verifyModel(pruned, { seed: 7, rows: 3 });
    expect(report).toMatchObject({ isEqual: true, seed: 7, rows: 3, maxRelative: 0 });
    expect(report.outputs).toEqual([
      { name: 'a', dtype: 'float32', dims: [3, 32, 8, 8], isEqual: true, maxDifference: 0, maxRelative: 0 },
      { name: 'b', dtype: 'float32', dims: [3, 128, 1, 1], isEqual: true, maxDifference: 0, maxRelative: 0 },
    ]);
  });

  it('compares what is computed after and before it too', async () => {
    const options = { pool: 'avg', l2Normalize: true, outputDtype: 'float16', input: 'image-uint8' } as const;
    const report = await verifyModel(await pruneModel(tinyResNet(), { layer4: 'v' }, options));
    expect(report.isEqual).toBe(true);
    expect(report.outputs[0]).toMatchObject({ dtype: 'float16', dims: [2, 128] });
  });

  it('feeds a part inside the graph with the full graph’s values', async () => {
    const pruned = await pruneModel(tinyResNet(), { fc: 'logits' }, { inputs: ['layer3'] });
    expect((await verifyModel(pruned)).isEqual).toBe(true);
  });

  it('takes sizes by name, and inputs of several dtypes', async () => {
    const spec: GraphSpec = {
      inputs: [
        { name: 'x', dims: ['n', 'side'] },
        { name: 'c', dims: [], elemType: 9 },
        { name: 'i', dims: [2], elemType: 7 },
      ],
      outputs: [{ name: 'y', dims: ['n', 'side'] }],
      nodes: [
        { op: 'Relu', inputs: ['x'], outputs: ['r'] },
        { op: 'Gather', inputs: ['r', 'i'], outputs: ['g'], ints: { axis: 1 } },
        { op: 'Not', inputs: ['c'], outputs: ['b'] },
        { op: 'Where', inputs: ['b', 'g', 'g'], outputs: ['y'] },
      ],
    };
    const report = await verifyModel(await pruneModel(modelBytes(spec), ['r', 'y']), {
      inputSizes: { side: 5 },
    });
    expect(report.outputs.map(({ dims }) => dims)).toEqual([
      [2, 5],
      [2, 2],
    ]);
    expect(report.isEqual).toBe(true);
  });
});

describe('values that only whole numbers hold', () => {
  const spec: GraphSpec = {
    inputs: [{ name: 'x', dims: ['n', 2, 3] }],
    outputs: [{ name: 'y', dims: [3, 'n', 2] }],
    initializers: { scale: { dims: [], values: [0.5] } },
    nodes: [
      { op: 'QuantizeLinear', inputs: ['x', 'scale'], outputs: ['x_quantized'] },
      {
        op: 'Transpose',
        name: '/turn/Transpose',
        inputs: ['x_quantized'],
        outputs: ['/turn/Transpose_output_0'],
        ints: { perm: [1, 0, 2] },
      },
      {
        op: 'Transpose',
        name: '/again/Transpose',
        inputs: ['/turn/Transpose_output_0'],
        outputs: ['/again/Transpose_output_0_quantized'],
        ints: { perm: [2, 1, 0] },
      },
      {
        op: 'DequantizeLinear',
        inputs: ['/again/Transpose_output_0_quantized', 'scale'],
        outputs: ['y'],
      },
    ],
  };
  const x = { dtype: 'float32', dims: [1, 2, 3], data: Float32Array.of(0, 0.4, 1, 1.3, 2, 50) } as const;

  it('become numbers, with the scale that the file has, and what is asked for behind them', async () => {
    const pruned = await pruneModel(modelBytes(spec), { turn: 'v' });
    expect(pruned.plan.added.nodes).toEqual(['tapir/v/DequantizeLinear']);
    expect(pruned.plan.resolved[0]).toMatchObject({
      tensor: '/turn/Transpose_output_0',
      computed: ['DequantizeLinear'],
    });
    expect((await verifyModel(pruned)).isEqual).toBe(true);
    const extractor = await createFeatureExtractor(
      modelBytes(spec),
      { turn: 'v', 'node:/turn/Transpose': 'raw' },
      { outputDtype: 'keep' },
    );
    const { v, raw } = await extractor.run(x);
    expect(v).toMatchObject({ dtype: 'float32', dims: [2, 1, 3] });
    expect([...(v!.data as Float32Array)]).toEqual([0, 0.5, 1, 1.5, 2, 50]);
    expect(raw!.dtype).toBe('uint8');
    await extractor.close();
  });

  it('take the tensor that has them where there is one', async () => {
    const { plan } = await pruneModel(modelBytes(spec), ['again']);
    expect(plan.resolved[0]!.tensor).toBe('y');
    expect(plan.added.nodes).toEqual([]);
  });

  it('are numbers where features are listed, and no place to feed', async () => {
    const [turn] = await describeFeatures(modelBytes(spec), ['turn']);
    expect(turn!.dtype).toBe('float32');
    await expect(pruneModel(modelBytes(spec), ['y'], { inputs: ['turn'] })).rejects.toThrow(
      expect.objectContaining({ code: 'NAME_FOLDED' }),
    );
  });
});

describe('verifyModel, half precision', () => {
  const wave = (dims: readonly number[]): WeightSpec => ({
    dims,
    values: Array.from({ length: dims.reduce((total, size) => total * size, 1) }, (_, i) => Math.sin(i) / 2),
  });
  const half = (name: string): NodeSpec => ({
    op: 'Cast',
    inputs: [`${name}32`],
    outputs: [name],
    ints: { to: 10 },
  });
  // ONNX Runtime computes both operators in float32. It rounds what is between them unless LayerNormalization alone reads it.
  const spec: GraphSpec = {
    inputs: [{ name: 'x', dims: ['n', 6, 8], elemType: 10 }],
    outputs: [{ name: 'y', dims: ['n', 6, 8], elemType: 10 }],
    initializers: { w32: wave([8, 8]), s32: wave([8]), b32: wave([8]) },
    nodes: [
      half('w'),
      half('s'),
      half('b'),
      { op: 'MatMul', inputs: ['x', 'w'], outputs: ['m'] },
      { op: 'LayerNormalization', inputs: ['m', 's', 'b'], outputs: ['y'] },
    ],
  };

  it('tolerates a rounding step of float16, and no more', async () => {
    const pruned = await pruneModel(modelBytes(spec), ['tensor:m'], { outputDtype: 'float32' });
    const { isEqual, maxRelative, tolerance } = await verifyModel(pruned);
    expect(isEqual).toBe(false);
    expect(maxRelative).toBeGreaterThan(1e-4);
    expect(maxRelative).toBeLessThanOrEqual(2 ** -11);
    expect(tolerance).toBe(2 ** -9);
    expect((await verifyModel(await pruneModel(tinyResNet(), ['fc']))).tolerance).toBe(1e-4);
  });
});

describe('verifyModel, odd requests', () => {
  const spec: GraphSpec = {
    inputs: [
      { name: 'x', dims: ['N', 'L'] },
      { name: 'b', dims: ['L'] },
    ],
    outputs: [{ name: 'y', dims: ['N', 'L'] }],
    nodes: [
      { op: 'Relu', name: 'same', inputs: ['x'], outputs: ['r'] },
      { op: 'Add', name: 'same', inputs: ['r', 'b'], outputs: ['y'] },
    ],
  };

  it('the same tensor under two keys, and as an input; one size per symbol; nodes of one name', async () => {
    const twice = await pruneModel(
      modelBytes(spec),
      [
        ['r', 'a'],
        ['tensor:r', 'b'],
      ],
      { tidy: true },
    );
    expect((await verifyModel(twice)).isEqual).toBe(true);
    const fed = await pruneModel(modelBytes(spec), ['y', 'r'], { inputs: ['r', 'b'], tidy: true });
    const report = await verifyModel(fed, { rows: 3 });
    expect(report).toMatchObject({ isEqual: true, rows: 3 });
    expect(report.outputs[0]?.dims).toEqual([3, 8]);
  });
});

describe('compareTensors', () => {
  const tensor = (values: readonly number[], dims: readonly number[] = [values.length]): Tensor => ({
    dtype: 'float32',
    dims,
    data: Float32Array.from(values),
  });

  it.each([
    ['the same', [1, NaN, -2], [1, NaN, -2], { isEqual: true, maxDifference: 0, maxRelative: 0 }],
    ['a difference', [1, 2.5], [1, 2], { isEqual: false, maxDifference: 0.5, maxRelative: 0.25 }],
    ['signs of zero', [0], [-0], { isEqual: false, maxDifference: 0, maxRelative: 0 }],
    ['NaN against a number', [NaN], [1], { isEqual: false, maxDifference: Infinity, maxRelative: Infinity }],
  ])('%s', (_, actual, expected, result) => {
    expect(compareTensors(tensor(actual), tensor(expected))).toEqual(result);
  });

  it('other dims, dtypes and texts are apart', () => {
    expect(compareTensors(tensor([1, 2]), tensor([1, 2], [2, 1])).maxDifference).toBe(Infinity);
    const text = (data: string[]): Tensor => ({ dtype: 'string', dims: [data.length], data });
    expect(compareTensors(text(['a']), text(['b'])).isEqual).toBe(false);
    expect(compareTensors(text(['a']), text(['a'])).isEqual).toBe(true);
  });

  it('reads half precision', () => {
    const half = (bits: number): Tensor => ({ dtype: 'float16', dims: [1], data: Uint16Array.of(bits) });
    expect(compareTensors(half(0x3c00), half(0x4000))).toEqual({
      isEqual: false,
      maxDifference: 1,
      maxRelative: 0.5,
    });
  });
});
