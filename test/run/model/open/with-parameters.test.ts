/** Single parameters replaced by name. */
import { createFeatureExtractor, openModel, type OnnxModel } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import { describe, expect, it } from 'vitest';
import { modelBytes } from '../../../support/graphs.js';

const floats = (dims: readonly number[], from = 0) => ({
  dtype: 'float32' as const,
  dims,
  data: Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, i) => from + i),
});

async function run(model: OnnxModel, input: readonly number[]): Promise<number[]> {
  const extractor = await createFeatureExtractor(model, ['y']);
  const { y } = await extractor.run({
    dtype: 'float32',
    dims: [1, input.length],
    data: Float32Array.from(input),
  });
  await extractor.close();
  return Array.from(y!.data as Float32Array);
}

/** x · fcᵀ + bias, as torch's exporters write a linear layer. */
const linear = (transposed: boolean): Uint8Array =>
  modelBytes({
    inputs: [{ name: 'x', dims: ['n', 2] }],
    outputs: [{ name: 'y', dims: ['n', 3] }],
    initializers: {
      [transposed ? 'onnx::MatMul_3' : 'fc.weight']: {
        dims: transposed ? [2, 3] : [3, 2],
        values: [1, 2, 3, 4, 5, 6],
      },
      'fc.bias': [0, 0, 0],
    },
    nodes: transposed
      ? [
          { op: 'MatMul', name: '/fc/MatMul', inputs: ['x', 'onnx::MatMul_3'], outputs: ['p'] },
          { op: 'Add', name: '/fc/Add', inputs: ['p', 'fc.bias'], outputs: ['y'] },
        ]
      : [
          {
            op: 'Gemm',
            name: '/fc/Gemm',
            inputs: ['x', 'fc.weight', 'fc.bias'],
            outputs: ['y'],
            ints: { transB: 1 },
          },
        ],
  });

describe.each([false, true])('withParameters, transposed in the file: %j', (transposed) => {
  it('replaces values in torch’s layout', async () => {
    const model = await openModel(linear(transposed));
    const tuned = await model.withParameters({ 'fc.weight': floats([3, 2]) });
    expect(await run(tuned, [1, 10])).toEqual([10, 32, 54]);
    expect((await tuned.parameters()[0]!.read()).data).toEqual(Float32Array.of(0, 1, 2, 3, 4, 5));
    expect(await run(model, [1, 10])).not.toEqual([10, 32, 54]);
  });

  it('takes a classifier of another size', async () => {
    const model = await openModel(linear(transposed));
    const tuned = await model.withParameters({ 'fc.weight': floats([2, 2]), 'fc.bias': floats([2], 100) });
    expect(tuned.outputs[0]!.dims).toEqual(['n', 2]);
    expect(await run(tuned, [1, 10])).toEqual([110, 133]);
  });

  it('refuses what does not fit', async () => {
    const model = await openModel(linear(transposed));
    for (const tensors of [
      { 'fc.weight': floats([3, 3]) },
      { 'fc.weights': floats([3, 2]) },
      { 'fc.bias': floats([3, 1]) },
    ])
      await expect(model.withParameters(tensors)).rejects.toMatchObject({ code: 'STATE_MISMATCH' });
    const integers = { dtype: 'int64', dims: [3], data: BigInt64Array.of(1n, 2n, 3n) } as const;
    await expect(model.withParameters({ 'fc.bias': integers })).rejects.toMatchObject({
      details: { misshapen: [{ key: 'fc.bias', expected: 'float32', actual: 'int64' }] },
    });
  });
});

it('refuses another size after which the graph goes on', async () => {
  const model = await createModel('resnet18', { numClasses: 5 });
  await expect(model.withParameters({ 'layer1.0.bn1.weight': floats([65]) })).rejects.toMatchObject({
    code: 'STATE_MISMATCH',
  });
  const tuned = await model.withParameters({ 'fc.weight': floats([7, 512]), 'fc.bias': floats([7]) });
  expect(tuned.outputs[0]!.dims!.at(-1)).toBe(7);
});
