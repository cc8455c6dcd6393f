/** CastLike, which dynamo exports hold that are not optimised. */
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../../src/onnx/file/wire/schema.js';
import { writeModel } from '../../../../src/onnx/file/wire/write-model.js';
import { newNode, runGradients } from '../../../support/gradients.js';

describe('CastLike', () => {
  it('casts the gradient back, and gives none to what states the type', async () => {
    const { float32, float64 } = ELEMENT_TYPE;
    const model = writeModel({
      irVersion: 8,
      opset: 17,
      name: 'cast',
      nodes: [
        newNode('Mul', ['x', 'x'], 'square'),
        newNode('CastLike', ['square', 'w'], 'wide'),
        newNode('Mul', ['wide', 'w'], 'y'),
      ],
      tensors: [],
      inputs: [
        { name: 'x', elemType: float32, dims: [3] },
        { name: 'w', elemType: float64, dims: [3] },
      ],
      outputs: [{ name: 'y', elemType: float64, dims: [3] }],
    });
    const wide = (...values: number[]) =>
      ({ dtype: 'float64', dims: [3], data: Float64Array.from(values) }) as const;
    const x = { dtype: 'float32', dims: [3], data: Float32Array.from([1, -2, 3]) } as const;
    const gradients = await runGradients(model, ['x', 'w'], { y: wide(1, 1, 2) }, { x, w: wide(4, 5, 6) });
    // 2 · x · w and x², each times the seed.
    expect(gradients['x']).toEqual({ ...x, data: Float32Array.from([8, -20, 72]) });
    expect(gradients['w']).toEqual(wide(1, 4, 18));
  });

  it('makes no constant depend on what states its type: the bound of a Clip', async () => {
    const { float32, float64 } = ELEMENT_TYPE;
    const model = writeModel({
      irVersion: 8,
      opset: 17,
      name: 'clamp',
      nodes: [newNode('CastLike', ['least', 'x'], 'bound'), newNode('Clip', ['x', 'bound'], 'y')],
      tensors: [],
      inputs: [
        { name: 'x', elemType: float32, dims: [3] },
        { name: 'least', elemType: float64, dims: [] },
      ],
      outputs: [{ name: 'y', elemType: float32, dims: [3] }],
    });
    const x = { dtype: 'float32', dims: [3], data: Float32Array.from([1, -2, 3]) } as const;
    const least = { dtype: 'float64', dims: [], data: Float64Array.from([0]) } as const;
    const gradients = await runGradients(model, ['x'], { y: x }, { x, least });
    expect(gradients['x']).toEqual({ ...x, data: Float32Array.from([1, 0, 3]) });
  });
});
