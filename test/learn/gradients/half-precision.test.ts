/** Gradients of a float16 graph: those of the same graph in float32, to the digits of half precision. */
import { expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../src/onnx/file/wire/schema.js';
import { writeModel } from '../../../src/onnx/file/wire/write-model.js';
import { fromFloat16Bits, toFloat16Bits } from '../../../src/onnx/tensor/float16.js';
import { newNode as node, runGradients, type Feeds } from '../../support/gradients.js';
import { countOf, Random } from '../../support/random-graphs.js';

const WEIGHT = [2, 3, 3, 3];
const values = (seed: number, dims: readonly number[]): Float32Array<ArrayBuffer> =>
  Float32Array.from(new Random(seed).values(countOf(dims)), (value) => Math.round(value * 16) / 16);
const halves = (numbers: Float32Array): Uint16Array<ArrayBuffer> => Uint16Array.from(numbers, toFloat16Bits);

function network(elemType: number): Uint8Array {
  const weight = values(1, WEIGHT);
  const data = elemType === ELEMENT_TYPE.float16 ? halves(weight) : weight;
  return writeModel({
    irVersion: 8,
    opset: 17,
    name: 'half',
    nodes: [
      node('Sigmoid', ['x'], 'a'),
      node('Mul', ['a', 'x'], 'b'),
      node('Conv', ['b', 'w'], 'c', { kernel_shape: [3, 3], pads: [1, 1, 1, 1], strides: [2, 2] }),
      node('Relu', ['c'], 'd'),
      node('MaxPool', ['d'], 'e', { kernel_shape: [2, 2] }),
      node('GlobalAveragePool', ['e'], 'y'),
    ],
    tensors: [{ name: 'w', elemType, dims: WEIGHT, data: new Uint8Array(data.buffer) }],
    inputs: [{ name: 'x', elemType, dims: ['n', 3, 'h', 'w'] }],
    outputs: [{ name: 'y', elemType, dims: ['n', 2, 1, 1] }],
  });
}

it('computes in half precision', async () => {
  const [x, y] = [
    [2, 3, 6, 6],
    [2, 2, 1, 1],
  ] as const;
  const feed = (seed: number, dims: readonly number[], isHalf: boolean): Feeds[string] => {
    const numbers = values(seed, dims);
    return isHalf
      ? { dtype: 'float16', dims: [...dims], data: halves(numbers) }
      : { dtype: 'float32', dims: [...dims], data: numbers };
  };
  const asked = ['x', 'tensor:w'];
  const run = (isHalf: boolean) =>
    runGradients(
      network(isHalf ? ELEMENT_TYPE.float16 : ELEMENT_TYPE.float32),
      asked,
      { y: feed(2, y, isHalf) },
      { x: feed(3, x, isHalf) },
    );
  const [half, whole] = [await run(true), await run(false)];
  for (const name of asked) {
    expect(half[name]!.dtype).toBe('float16');
    const numbers = Array.from(half[name]!.data as Uint16Array, fromFloat16Bits);
    for (const [i, value] of (whole[name]!.data as Float32Array).entries())
      expect(Math.abs(numbers[i]! - value)).toBeLessThan(0.01);
  }
});
