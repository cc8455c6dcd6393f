/** MaxPool before operator set 16, whose scatters cannot add: the same gradients as by indices, ties included. */
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../../src/onnx/file/wire/schema.js';
import { writeModel, type NewAttribute } from '../../../../src/onnx/file/wire/write-model.js';
import { runGradients } from '../../../support/gradients.js';
import { Random } from '../../../support/random-graphs.js';

const random = new Random(5);
const tensor = (dims: readonly number[], make: () => number) => ({
  dtype: 'float32' as const,
  dims: [...dims],
  data: Float32Array.from({ length: dims.reduce((product, size) => product * size, 1) }, make),
});

function pool(opset: number, attributes: Record<string, NewAttribute>, isOpen: boolean): Uint8Array {
  const dims = isOpen ? ['n', 2, 'h', 'w'] : [2, 2, 9, 8];
  return writeModel({
    irVersion: 7,
    opset,
    name: 'pool',
    nodes: [{ name: 'p', opType: 'MaxPool', inputs: ['x'], outputs: ['y'], attributes }],
    tensors: [],
    inputs: [{ name: 'x', elemType: ELEMENT_TYPE.float32, dims }],
    outputs: [{ name: 'y', elemType: ELEMENT_TYPE.float32, dims: ['n', 2, 'p', 'q'] }],
  });
}

describe('MaxPool', () => {
  it.each([
    [{ kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] }, [5, 4]],
    [{ kernel_shape: [2, 2], strides: [2, 2] }, [4, 4]],
    [{ kernel_shape: [3, 2], dilations: [2, 1] }, [5, 7]],
  ] as const)('%j', async (attributes, size) => {
    // Few values: most windows hold their maximum several times.
    const x = tensor([2, 2, 9, 8], () => random.below(3) - 1);
    const y = tensor([2, 2, ...size], () => random.unit());
    const expected = await runGradients(pool(17, attributes, false), ['x'], { y }, { x });
    for (const opset of [11, 13]) {
      for (const isOpen of [false, true]) {
        const result = await runGradients(pool(opset, attributes, isOpen), ['x'], { y }, { x });
        const wanted = expected['x']!.data as Float32Array;
        for (const [i, value] of (result['x']!.data as Float32Array).entries())
          expect(value).toBeCloseTo(wanted[i]!, 5);
      }
    }
  });
});
