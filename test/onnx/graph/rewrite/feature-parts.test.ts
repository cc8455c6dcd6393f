/** Added parts in old operator sets: the forms that those have, with the values of the newest one. */
import { createFeatureExtractor, pruneModel, type FeatureExtractorOptions, type Options } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { modelBytes } from '../../../support/graphs.js';

const values = (count: number, step: number): number[] =>
  Array.from({ length: count }, (_, i) => Math.sin(i * step));

/** A map `[n, 4, 5, 5]` after a convolution; or tokens `[n, 5, 4]` after a linear layer. */
function model(kind: 'map' | 'tokens', opset: number): Uint8Array {
  const isMap = kind === 'map';
  const weight = { dims: isMap ? [4, 3, 1, 1] : [3, 4], values: values(12, 0.9) };
  const dims = isMap ? ['n', 3, 5, 5] : ['n', 5, 3];
  const isOld = opset < 9;
  return modelBytes(
    {
      inputs: [{ name: 'x', dims }, ...(isOld ? [{ name: 'w', dims: weight.dims }] : [])],
      outputs: [{ name: 'y', dims: isMap ? ['n', 4, 5, 5] : ['n', 5, 4] }],
      initializers: { w: weight },
      nodes: [{ op: isMap ? 'Conv' : 'MatMul', name: 'layer', inputs: ['x', 'w'], outputs: ['y'] }],
    },
    { opset, irVersion: isOld ? 3 : 8 },
  );
}

const feedOf = (kind: 'map' | 'tokens') => ({
  dtype: 'float32',
  dims: kind === 'map' ? [2, 3, 5, 5] : [2, 5, 3],
  data: Float32Array.from(values(kind === 'map' ? 150 : 30, 0.7)),
});

async function run(
  kind: 'map' | 'tokens',
  opset: number,
  options: Options<FeatureExtractorOptions>,
  feed: object,
) {
  const session = { graphOptimizationLevel: 'disabled' } as const;
  await using extractor = await createFeatureExtractor(
    model(kind, opset),
    { y: 'v' },
    { outputDtype: 'keep', ...options, session },
  );
  const { v } = await extractor.run(feed as never);
  return { dims: v.dims, values: Array.from(v.data as Float32Array, Number) };
}

const PARTS: [string, 'map' | 'tokens', Options<FeatureExtractorOptions>, number][] = [
  ['avg', 'map', { pool: 'avg' }, 1],
  ['max', 'map', { pool: 'max' }, 1],
  ['cls', 'tokens', { pool: 'cls' }, 1],
  ['mean-tokens', 'tokens', { pool: 'mean-tokens' }, 1],
  ['tokens to a map', 'tokens', { tokensToMap: true }, 1],
  ['unit length', 'map', { l2Normalize: true }, 1],
  ['unit length of a vector', 'tokens', { pool: 'cls', l2Normalize: true }, 1],
  ['half precision', 'map', { pool: 'avg', outputDtype: 'float16' }, 6],
];

describe.each(PARTS)('%s', (_, kind, options, since) => {
  it.each([1, 3, 4, 5, 6, 7, 8].filter((opset) => opset >= since))('in operator set %i', async (opset) => {
    const expected = await run(kind, 17, options, feedOf(kind));
    const actual = await run(kind, opset, options, feedOf(kind));
    expect(actual.dims).toEqual(expected.dims);
    actual.values.forEach((value, i) => expect(value).toBeCloseTo(expected.values[i]!, 6));
  });
});

describe('tokens to a map', () => {
  const pixels = {
    inputs: [{ name: 'x', dims: ['n', 5, 5, 3] }],
    outputs: [{ name: 'y', dims: ['n', 5, 5, 4] }],
  };
  const linear = {
    initializers: { w: { dims: [3, 4], values: values(12, 0.9) } },
    nodes: [{ op: 'MatMul', name: 'layer', inputs: ['x', 'w'], outputs: ['y'] }],
  };

  it.each([
    ['NCHW', model('map', 17)],
    ['NHWC', modelBytes({ ...pixels, ...linear })],
  ])('are refused for a map of layout %s', async (layout, bytes) => {
    await expect(pruneModel(bytes, ['y'], { tokensToMap: true })).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
      message: expect.stringContaining(
        `it is a map already (${layout}); leave out option "tokensToMap"`,
      ) as string,
    });
  });
});

describe('image-uint8', () => {
  const options = { input: 'image-uint8' } as const;

  it.each([7, 8])('in operator set %i, bit for bit', async (opset) => {
    const data = Uint8Array.from({ length: 150 }, (_, i) => (i * 37) % 256);
    const pixels = { dtype: 'uint8', dims: [2, 5, 5, 3], data };
    expect(await run('map', opset, options, pixels)).toEqual(await run('map', 17, options, pixels));
  });

  it('is refused by the name of the operator before that', async () => {
    await expect(pruneModel(model('map', 6), ['y'], options)).rejects.toMatchObject({
      code: 'INPUT_MISMATCH',
      message: expect.stringContaining('runs Div, which must be added, from operator set 7 on') as string,
    });
  });
});

describe('the least norm', () => {
  it.each([7, 8, 17])('is 1e-12 in operator set %i', async (opset) => {
    const tiny = { dtype: 'float32', dims: [1, 5, 3], data: new Float32Array(15).fill(1e-16) };
    const { values: short } = await run('tokens', opset, { pool: 'cls', l2Normalize: true }, tiny);
    expect(Math.hypot(...short)).toBeLessThan(1e-3);
  });

  it('lets zeros be zeros before that', async () => {
    const zero = { dtype: 'float32', dims: [1, 5, 3], data: new Float32Array(15) };
    expect((await run('tokens', 6, { pool: 'cls', l2Normalize: true }, zero)).values).toEqual([0, 0, 0, 0]);
  });
});
