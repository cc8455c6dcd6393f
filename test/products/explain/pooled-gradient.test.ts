/** Heads of pooling and one linear layer: recognised in every form, with the gradient that the backward pass computes. */
import { createFeatureExtractor, type Tensor } from 'onnx-tapir';
import { attribute, createAttribution } from 'onnx-tapir/explain';
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../src/onnx/file/wire/schema.js';
import { writeModel, type NewNode } from '../../../src/onnx/file/wire/write-model.js';
import { tinyResNet } from '../../support/fixtures.js';
import { runGradients } from '../../support/gradients.js';

const [ROWS, CHANNELS, CLASSES] = [3, 4, 5];
const LAYER = 'tensor:layer';
const TARGET = [4, 0, 2];

const wave = (length: number, speed: number): Float32Array =>
  Float32Array.from({ length }, (_, i) => Math.sin(1 + i * speed));
const floats = (name: string, ...dims: number[]) => {
  const data = wave(
    dims.reduce((product, size) => product * size, 1),
    0.7,
  );
  return { name, elemType: ELEMENT_TYPE.float32, dims, data: new Uint8Array(data.buffer) };
};
const integers = (name: string, ...values: number[]) => ({
  name,
  elemType: ELEMENT_TYPE.int64,
  dims: [values.length],
  data: new Uint8Array(BigInt64Array.from(values.map(BigInt)).buffer),
});
const node = (
  opType: string,
  inputs: string[],
  output: string,
  attributes: NewNode['attributes'] = {},
): NewNode => ({ name: output, opType, inputs, outputs: [output], attributes });

const IMAGE: Tensor<'float32'> = {
  dtype: 'float32',
  dims: [ROWS, 3, 6, 8],
  data: wave(ROWS * 3 * 6 * 8, 0.3),
};

/** A convolution without padding, `layer` of 4 × 6 places, then the nodes of the head, from `layer` to `y`. */
function classifier(head: readonly NewNode[], opset = 17): Uint8Array {
  return writeModel({
    irVersion: 8,
    opset,
    name: 'classifier',
    nodes: [
      node('Conv', ['x', 'kernel'], 'conv', { kernel_shape: [3, 3] }),
      node('Tanh', ['conv'], 'layer'),
      ...head,
    ],
    tensors: [
      floats('kernel', CHANNELS, 3, 3, 3),
      floats('weight', CLASSES, CHANNELS),
      floats('turned', CHANNELS, CLASSES),
      floats('bias', CLASSES),
      floats('scales', 1, CHANNELS, 1, 1),
      integers('map', 2, 3),
      integers('fromTheEnd', -1, -2),
      integers('rows', -1, CHANNELS),
      integers('width', 3),
    ],
    inputs: [{ name: 'x', elemType: ELEMENT_TYPE.float32, dims: ['n', 3, 6, 8] }],
    outputs: [{ name: 'y', elemType: ELEMENT_TYPE.float32, dims: ['n', CLASSES] }],
  });
}

const POOL = node('GlobalAveragePool', ['layer'], 'pooled');
const FLAT = node('Flatten', ['pooled'], 'flat', { axis: 1 });
const GEMM = node('Gemm', ['flat', 'weight', 'bias'], 'y', { transB: 1 });
const whole = (kernel: readonly number[], more: NewNode['attributes'] = {}): NewNode =>
  node('AveragePool', ['layer'], 'pooled', { kernel_shape: kernel, ...more });

const PROVEN: Readonly<Record<string, { readonly head: readonly NewNode[]; readonly opset?: number }>> = {
  'Flatten and Gemm': { head: [POOL, FLAT, GEMM] },
  'Gemm with a factor and an unturned weight': {
    head: [POOL, FLAT, node('Gemm', ['flat', 'turned'], 'y', { alpha: { float: 0.5 } })],
  },
  'ReduceMean, Reshape, MatMul and Add': {
    head: [
      node('ReduceMean', ['layer'], 'pooled', { axes: [2, 3], keepdims: 1 }),
      node('Reshape', ['pooled', 'rows'], 'flat'),
      node('MatMul', ['flat', 'turned'], 'product'),
      node('Add', ['bias', 'product'], 'y'),
    ],
  },
  'ReduceMean with its axes as an input, and MatMul alone': {
    head: [
      node('ReduceMean', ['layer', 'fromTheEnd'], 'flat', { keepdims: 0 }),
      node('MatMul', ['flat', 'turned'], 'y'),
    ],
    opset: 18,
  },
  'AveragePool over the map, Dropout, Squeeze and Identity': {
    head: [
      whole([4, 6]),
      node('Dropout', ['pooled'], 'dropped'),
      node('Squeeze', ['dropped', 'map'], 'flat'),
      node('Gemm', ['flat', 'weight', 'bias'], 'z', { transB: 1 }),
      node('Identity', ['z'], 'y'),
    ],
  },
};

const OTHERS: Readonly<Record<string, readonly NewNode[]>> = {
  'a softmax': [
    POOL,
    FLAT,
    node('Gemm', ['flat', 'weight', 'bias'], 'z', { transB: 1 }),
    node('Softmax', ['z'], 'y'),
  ],
  'an activation in front of the pool': [
    node('Relu', ['layer'], 'relu'),
    node('GlobalAveragePool', ['relu'], 'pooled'),
    FLAT,
    GEMM,
  ],
  'the largest value of a channel': [node('GlobalMaxPool', ['layer'], 'pooled'), FLAT, GEMM],
  'factors after the pool': [
    node('GlobalAveragePool', ['layer'], 'p'),
    node('Mul', ['p', 'scales'], 'pooled'),
    FLAT,
    GEMM,
  ],
  'a mean over one axis, then the largest value': [
    node('ReduceMean', ['layer'], 'mean', { axes: [2], keepdims: 1 }),
    node('ReduceMax', ['mean'], 'pooled', { axes: [3], keepdims: 1 }),
    FLAT,
    GEMM,
  ],
  'a window with padding': [whole([4, 6], { pads: [1, 1, 0, 0], strides: [2, 2] }), FLAT, GEMM],
  'two ways to the scores': [
    POOL,
    FLAT,
    node('Mul', ['flat', 'flat'], 'square'),
    node('Gemm', ['square', 'weight', 'bias'], 'y', { transB: 1 }),
  ],
};

/** Activation times gradient, added over the channels, with the gradient of the backward pass. */
async function expectedMap(model: Uint8Array): Promise<number[]> {
  const seed = new Float32Array(ROWS * CLASSES);
  for (const [row, index] of TARGET.entries()) seed[row * CLASSES + index] = 1;
  const upstream = { y: { dtype: 'float32', dims: [ROWS, CLASSES], data: seed } } as const;
  const { layer: gradient } = await runGradients(model, ['layer'], upstream, { x: IMAGE });
  await using extractor = await createFeatureExtractor(model, { [LAYER]: 'layer' });
  const { layer } = await extractor.run(IMAGE);
  const [slopes, values] = [gradient!.data as Float32Array, layer.data as Float32Array];
  const places = values.length / ROWS / CHANNELS;
  return Array.from({ length: ROWS * places }, (_, at) => {
    const start = Math.floor(at / places) * CHANNELS * places + (at % places);
    let sum = 0;
    for (let c = 0; c < CHANNELS; c++) sum += slopes[start + c * places]! * values[start + c * places]!;
    return sum;
  });
}

describe('the gradient of a layer in front of a pooling head', () => {
  it.each(Object.entries(PROVEN))('%s: no backward pass, the same map', async (_, { head, opset }) => {
    const model = classifier(head, opset);
    await using attribution = await createAttribution(model, { method: 'hires-cam', layer: LAYER });
    expect(attribution.gradients).toBeNull();
    const { map } = await attribution.run(IMAGE, { target: TARGET });
    const expected = await expectedMap(model);
    expect(map.dims).toEqual([ROWS, 4, 6]);
    for (const [i, value] of expected.entries()) expect(map.data[i]).toBeCloseTo(value, 5);
  });

  it.each(Object.entries(OTHERS))('%s: the backward pass', async (_, head) => {
    await using attribution = await createAttribution(classifier(head), { layer: LAYER, output: 'tensor:y' });
    expect(attribution.gradients).not.toBeNull();
  });

  it('a layer further in front takes the backward pass', async () => {
    await using attribution = await createAttribution(tinyResNet(), { layer: 'layer3' });
    expect(attribution.gradients).not.toBeNull();
  });

  it('functions as targets weigh several classes', async () => {
    const model = classifier([POOL, FLAT, GEMM]);
    const options = { method: 'grad-cam', layer: LAYER } as const;
    const [first, second] = [
      await attribute(model, IMAGE, { ...options, target: 1 }),
      await attribute(model, IMAGE, { ...options, target: 3 }),
    ];
    const both = await attribute(model, IMAGE, { ...options, target: () => [0, 2, 0, -1, 0] });
    for (const [i, value] of both.map.data.entries())
      expect(value).toBeCloseTo(2 * first.map.data[i]! - second.map.data[i]!, 5);
  });
});
