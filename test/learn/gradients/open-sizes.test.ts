/** Sizes after convolutions have names, so that residual sums are not reduced over axes that only the run tells. */
import { createFeatureExtractor, openModel } from 'onnx-tapir';
import { differentiate } from 'onnx-tapir/gradients';
import { expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../src/onnx/file/wire/schema.js';
import { writeModel } from '../../../src/onnx/file/wire/write-model.js';
import { newNode as node } from '../../support/gradients.js';
import { modelBytes } from '../../support/graphs.js';

const weight = (name: string) => ({
  name,
  elemType: ELEMENT_TYPE.float32,
  dims: [4, 4, 3, 3],
  data: new Uint8Array(4 * 4 * 9 * 4),
});

/** A residual block with a stride, whose two ways give `b` and `d`. */
function block(strides: readonly [number, number]): Uint8Array {
  const convolution = { kernel_shape: [3, 3], pads: [1, 1, 1, 1] };
  return writeModel({
    irVersion: 8,
    opset: 17,
    name: 'block',
    nodes: [
      node('Conv', ['x', 'w'], 'a', { ...convolution, strides }),
      node('Relu', ['a'], 'b'),
      node('Conv', ['b', 'v'], 'c', convolution),
      node('Conv', ['x', 'w'], 'd', { ...convolution, strides: [2, 2] }),
      node('Add', ['c', 'd'], 'y'),
    ],
    tensors: [weight('w'), weight('v')],
    inputs: [{ name: 'x', elemType: ELEMENT_TYPE.float32, dims: ['n', 4, 'h', 'w_'] }],
    outputs: [{ name: 'y', elemType: ELEMENT_TYPE.float32, dims: ['n', 4, null, null] }],
  });
}

it('proves that two ways of a block have one size', async () => {
  const { plan } = await differentiate(block([2, 2]), { of: ['y'], withRespectTo: ['x'] });
  expect(plan.added.nodes.filter((name) => name.includes('NonZero'))).toEqual([]);
});

it('leaves it to the run where the sizes follow from different formulas', async () => {
  const { plan } = await differentiate(block([2, 1]), { of: ['y'], withRespectTo: ['x'] });
  expect(plan.added.nodes.filter((name) => name.includes('NonZero')).length).toBeGreaterThan(0);
});

it('takes the sizes that follow from fixed inputs where the file leaves them open', async () => {
  const file = (dims: readonly (number | string)[]) =>
    modelBytes(
      {
        inputs: [
          { name: 'x', dims },
          { name: 'z', dims: [2, 1] },
        ],
        outputs: [
          { name: 'y', dims: ['a', 'b'] },
          { name: 'out', dims: ['c', 'd'] },
        ],
        nodes: [
          { op: 'Relu', inputs: ['x'], outputs: ['y'] },
          { op: 'Mul', inputs: ['y', 'z'], outputs: ['out'] },
        ],
      },
      { opset: 11 },
    );
  const request = { of: ['out'], withRespectTo: ['y', 'z'] };
  await expect(differentiate(file(['n', 3]), request)).rejects.toMatchObject({
    code: 'GRADIENT_UNSUPPORTED',
  });
  await using extractor = await createFeatureExtractor(
    await openModel(await (await differentiate(file([2, 3]), request)).bytes()),
    ['gradient/y', 'gradient/z'],
  );
  expect(extractor.outputs.map(({ dims }) => dims)).toEqual([
    [2, 3],
    [2, 1],
  ]);
});
