/** Channels, reduction and layout that are told before a model runs. */
import { describeFeatures } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { modelBytes } from '../../../support/graphs.js';

/** Tensors inside a model that takes images of 240 × 240, with the sizes that the file states. */
const TENSORS: readonly (readonly [
  name: string,
  op: string,
  inputs: readonly string[],
  dims: readonly number[],
])[] = [
  ['stem', 'Conv', ['x', 'w'], [1, 8, 120, 120]],
  ['last', 'Conv', ['stem', 'v'], [1, 8, 8, 8]],
  ['patches', 'Conv', ['stem', 'v'], [1, 8, 20, 20]],
  ['map', 'Reshape', ['patches', 'shape'], [1, 8, 15, 15]],
  ['channels last', 'Reshape', ['patches', 'shape'], [1, 15, 15, 8]],
  ['heads', 'Reshape', ['patches', 'shape'], [1, 3, 197, 64]],
  ['scores', 'Reshape', ['patches', 'shape'], [1, 3, 197, 197]],
  ['windows', 'Reshape', ['patches', 'shape'], [1, 3, 60, 60]],
  ['attention', 'MatMul', ['windows', 'windows'], [1, 3, 60, 60]],
  ['weights', 'Softmax', ['attention'], [1, 3, 60, 60]],
];

describe('describeFeatures', () => {
  const model = modelBytes({
    inputs: [{ name: 'x', dims: [1, 3, 240, 240] }],
    outputs: TENSORS.map(([name, , , dims]) => ({ name, dims: [...dims] })),
    nodes: TENSORS.map(([name, op, inputs]) => ({ op, inputs: [...inputs], outputs: [name] })),
    initializers: {
      w: { dims: [8, 3, 1, 1], values: Array<number>(24).fill(1) },
      v: { dims: [8, 8, 1, 1], values: Array<number>(64).fill(1) },
      shape: { dims: [1], values: [0], elemType: 'int64' },
    },
  });

  it.each([
    ['x', 'NCHW', 3, 1],
    ['stem', 'NCHW', 8, 2],
    // Sizes are rounded up on the way: 240 / 8 = 30 is no stride.
    ['last', 'NCHW', 8, 32],
    ['patches', 'NCHW', 8, 12],
    ['map', 'NCHW', 8, 16],
    ['channels last', 'NHWC', 8, 16],
  ])('knows the layout of %s', async (name, layout, channels, reduction) => {
    const [found] = await describeFeatures(model, [`tensor:${name}`]);
    expect(found).toMatchObject({ layout, channels, reduction });
  });

  it.each(['heads', 'scores', 'attention', 'weights'])('takes %s for no map', async (name) => {
    const [found] = await describeFeatures(model, [`tensor:${name}`]);
    expect(found).toMatchObject({ layout: null, channels: null, reduction: null });
  });
});
