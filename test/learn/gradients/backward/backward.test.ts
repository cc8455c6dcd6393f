/** Broadcasting undone: gradients have the dims of what they belong to, whether sizes are known or not. */
import { differentiate } from 'onnx-tapir/gradients';
import { describe, expect, it } from 'vitest';
import { runGradients, type Feeds } from '../../../support/gradients.js';
import { modelBytes } from '../../../support/graphs.js';

type Dims = readonly (number | string)[];

const product = (x: Dims, z: Dims, opset = 17): Uint8Array =>
  modelBytes(
    {
      inputs: [
        { name: 'x', dims: x },
        { name: 'z', dims: z },
      ],
      outputs: [{ name: 'y', dims: ['?', '?'] }],
      nodes: [{ op: 'Mul', inputs: ['x', 'z'], outputs: ['y'], name: 'product' }],
    },
    { opset, irVersion: 7 },
  );

const ones = (...dims: number[]): Feeds[string] => ({
  dtype: 'float32',
  dims,
  data: new Float32Array(dims.reduce((count, size) => count * size, 1)).fill(1),
});

describe('broadcasting', () => {
  it.each([
    [['n', 3], [3], [2, 3], [3], [2, 2, 2]],
    [
      ['n', 3],
      ['n', 1],
      [2, 3],
      [2, 1],
      [3, 3],
    ],
    [['n', 3], [], [2, 3], [], [6]],
    [['n', 3], [1], [2, 3], [1], [6]],
    [[2, 3], [1, 1], [2, 3], [1, 1], [6]],
    [
      ['a', 'b'],
      ['c', 'd'],
      [2, 3],
      [1, 3],
      [2, 2, 2],
    ],
    [
      ['a', 'b'],
      ['c', 'd'],
      [2, 3],
      [2, 1],
      [3, 3],
    ],
    [
      ['a', 'b'],
      ['c', 'd'],
      [2, 3],
      [2, 3],
      [1, 1, 1, 1, 1, 1],
    ],
    [['a', 'b'], ['c'], [2, 3], [1], [6]],
  ])('%j · %j, fed %j and %j', async (x, z, fedX, fedZ, expected) => {
    const result = await runGradients(
      product(x, z),
      ['z'],
      { y: ones(2, 3) },
      { x: ones(...fedX), z: ones(...fedZ) },
    );
    expect(result['z']).toMatchObject({ dims: fedZ, data: Float32Array.from(expected) });
  });

  it('is refused where it is known only at run time and the operator set cannot sum over computed axes', async () => {
    const attempt = differentiate(product(['a', 'b'], ['c', 'd'], 12), { of: ['y'], withRespectTo: ['z'] });
    await expect(attempt).rejects.toMatchObject({
      code: 'GRADIENT_UNSUPPORTED',
      details: { operator: 'Mul', node: 'product', cut: 'y' },
    });
  });
});
