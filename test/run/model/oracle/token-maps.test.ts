/** Maps of tokens that a model keeps in another order, as Hiera does. */
import { createFeatureExtractor, type Tensor } from 'onnx-tapir';
import { drawFeatures } from 'onnx-tapir/explain';
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../../src/onnx/file/wire/schema.js';
import { modelBytes, type NodeSpec, type WeightSpec } from '../../../support/graphs.js';

const list = (...values: readonly number[]): WeightSpec => ({
  dims: [values.length],
  values,
  elemType: 'int64',
});
const node = (op: string, inputs: readonly string[], output: string, ints = {}): NodeSpec => ({
  op,
  inputs,
  outputs: [output],
  ints,
});

/** Patches of 2 × 2 pixels of an image of 8 × 12, as a map, and as tokens in the order of 2 × 2 mask units after a learned one. */
function hiera(sides: readonly number[], ...more: readonly NodeSpec[]): Uint8Array {
  return modelBytes({
    inputs: [
      { name: 'x', dims: ['n', 3, ...sides] },
      { name: 'order', dims: [24], elemType: ELEMENT_TYPE.int64 },
    ],
    outputs: [
      { name: 'map', dims: ['n', 3, null, null] },
      { name: more.length > 0 ? 'y' : 'units', dims: ['n', null, 3] },
    ] as never,
    nodes: [
      node('Conv', ['x', 'w'], 'map', { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] }),
      node('Reshape', ['map', 'split'], 's'),
      node('Transpose', ['s'], 't', { perm: [0, 3, 5, 2, 4, 1] }),
      node('Reshape', ['t', 'flat'], 'moved'),
      node('Concat', ['first', 'moved'], 'units', { axis: 1 }),
      ...more,
    ],
    initializers: {
      w: { dims: [3, 3, 3, 3], values: Array.from({ length: 81 }, (_, i) => Math.sin(i)) },
      split: list(-1, 3, 2, 2, 3, 2),
      flat: list(-1, 24, 3),
      first: { dims: [1, 1, 3], values: [7, 8, 9] },
    },
  });
}

const image: Tensor<'float32'> = {
  dtype: 'float32',
  dims: [1, 3, 8, 12],
  data: Float32Array.from({ length: 288 }, (_, i) => Math.cos(i * 0.7)),
};

describe('tokens in the order of mask units', () => {
  it('make the map of the photo, in the graph and in pictures', async () => {
    await using plain = await createFeatureExtractor(hiera([8, 12]), ['map', 'units']);
    await using mapped = await createFeatureExtractor(hiera([8, 12]), { units: 'v' }, { tokensToMap: true });
    const { map, units } = await plain.run(image);
    const { v } = await mapped.run(image);
    expect(v).toEqual(map);
    const imageSize = { height: 8, width: 12 };
    expect(await drawFeatures(units, { imageSize })).toEqual(await drawFeatures(map, { imageSize }));
  });

  it('are refused behind an order that is fed', async () => {
    const bytes = hiera([8, 12], node('Gather', ['moved', 'order'], 'y', { axis: 1 }));
    const made = createFeatureExtractor(bytes, { y: 'v' }, { tokensToMap: true });
    const refused = { code: 'FEATURE_AMBIGUOUS', details: { part: 'patches' } };
    await expect(made).rejects.toMatchObject(refused);
    await using extractor = await createFeatureExtractor(bytes, ['y']);
    const order = {
      dtype: 'int64',
      dims: [24],
      data: BigInt64Array.from({ length: 24 }, (_, i) => BigInt(i)),
    };
    const { y } = await extractor.run({ x: image, order } as never);
    await expect(drawFeatures(y)).rejects.toMatchObject(refused);
  });
});
