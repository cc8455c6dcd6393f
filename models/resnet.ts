/**
 * A full-size ResNet-50 as an ONNX file, with torchvision's topology and TorchScript's node names, and seeded weights:
 * untrained, for wiring and speed, not for meaning.
 *
 * The weights are scaled so that activations stay near unit size and different photos get clearly different vectors.
 * Plain random filters would not do: everything after a ReLU is positive, so they mostly respond to the common mean, and all
 * photos come out alike (cosine 0.998). Here every filter sums to zero, which removes that mean layer by layer.
 *
 * Architecture: He et al., "Deep Residual Learning for Image Recognition", 2015, in torchvision's v1.5 variant (the 3×3
 * convolution carries the stride).
 */
import { ELEMENT_TYPE } from '../src/onnx/file/wire/schema.js';
import {
  writeModel,
  type NewAttribute,
  type NewNode,
  type NewTensor,
} from '../src/onnx/file/wire/write-model.js';

/** The size of a network. */
export interface ResNetShape {
  /** Blocks of each of the four stages. */
  readonly blocks: readonly [number, number, number, number];
  /** Channels of the stem and of the first stage's inner convolutions; each further stage has twice as many. */
  readonly width: number;
  /** Height and width of the input. */
  readonly size: number;
  readonly classes: number;
}

const RESNET50: ResNetShape = { blocks: [3, 4, 6, 3], width: 64, size: 224, classes: 1000 };
/** A block gives out four times as many channels as its inner convolutions have. */
const EXPANSION = 4;
const OPSET = 17;
const IR_VERSION = 8;

/** How strongly a block adds to its shortcut: small, so that sixteen of them do not blow activations up. */
const BLOCK_GAIN = 0.5;
/** Raises the threshold of the ReLUs, so that fewer units fire and they differ more between images. */
const SHIFT = -0.25;

/** The finaliser of MurmurHash3 (Austin Appleby, public domain): a well-mixed 32-bit number per index. */
function mix(index: number): number {
  let h = index | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Collects nodes and weights while the network is written down. */
class Builder {
  readonly nodes: NewNode[] = [];
  readonly weights: NewTensor[] = [];
  parameters = 0;
  #seed: number;

  constructor(seed: number) {
    this.#seed = mix(seed + 0x9e3779b9);
  }

  #uniform(from: number, to: number): number {
    this.#seed = (this.#seed + 1) | 0;
    return from + (mix(this.#seed) / 2 ** 32) * (to - from);
  }

  /** Adds a node in a module; its output is named as TorchScript names it. */
  node(
    scope: string,
    opType: string,
    inputs: string[],
    attributes: Record<string, NewAttribute> = {},
    output = `${scope}/${opType}_output_0`,
  ): string {
    this.nodes.push({ name: `${scope}/${opType}`, opType, inputs, outputs: [output], attributes });
    return output;
  }

  weight(name: string, dims: number[], values: Float32Array): string {
    const data = new Uint8Array(values.buffer);
    this.weights.push({ name, elemType: ELEMENT_TYPE.float32, dims, data });
    return name;
  }

  parameter(name: string, dims: number[], values: Float32Array): string {
    this.parameters += values.length;
    return this.weight(name, dims, values);
  }

  /** Filters of uniform numbers of a variance, each filter's sum taken out. */
  filters(count: number, fanIn: number, variance: number): Float32Array {
    const bound = Math.sqrt(3 * variance);
    const values = new Float32Array(count * fanIn);
    for (let filter = 0; filter < count; filter++) {
      const start = filter * fanIn;
      let sum = 0;
      for (let i = 0; i < fanIn; i++) {
        const value = this.#uniform(-bound, bound);
        values[start + i] = value;
        sum += value;
      }
      for (let i = 0; i < fanIn; i++) values[start + i] = values[start + i]! - sum / fanIn;
    }
    return values;
  }

  convolution(
    path: string,
    scope: string,
    input: string,
    inChannels: number,
    outChannels: number,
    kernel: number,
    stride: number,
  ): string {
    const fanIn = inChannels * kernel * kernel;
    // Behind a ReLU of unit-normal numbers, what is left about the mean has variance 1/2 − 1/(2π).
    const variance = 1 / ((0.5 - 0.5 / Math.PI) * fanIn);
    const pad = (kernel - 1) / 2;
    const weight = this.parameter(
      `${path}.weight`,
      [outChannels, inChannels, kernel, kernel],
      this.filters(outChannels, fanIn, variance),
    );
    return this.node(scope, 'Conv', [input, weight], {
      dilations: [1, 1],
      group: 1,
      kernel_shape: [kernel, kernel],
      pads: [pad, pad, pad, pad],
      strides: [stride, stride],
    });
  }

  batchNorm(
    path: string,
    scope: string,
    input: string,
    channels: number,
    gain: number,
    shift: number,
  ): string {
    const fill = (value: number): Float32Array => new Float32Array(channels).fill(value);
    const inputs = [
      input,
      this.parameter(`${path}.weight`, [channels], fill(gain)),
      this.parameter(`${path}.bias`, [channels], fill(shift)),
      this.weight(`${path}.running_mean`, [channels], fill(0)),
      this.weight(`${path}.running_var`, [channels], fill(1)),
    ];
    return this.node(scope, 'BatchNormalization', inputs, {
      epsilon: { float: 1e-5 },
      momentum: { float: 0.9 },
    });
  }
}

function bottleneck(
  builder: Builder,
  path: string,
  scope: string,
  input: string,
  inChannels: number,
  width: number,
  stride: number,
): string {
  const outChannels = width * EXPANSION;
  const conv = (
    k: number,
    from: string,
    channels: [number, number],
    kernel: number,
    step: number,
    gain: number,
  ): string =>
    builder.batchNorm(
      `${path}.bn${k}`,
      `${scope}/bn${k}`,
      builder.convolution(`${path}.conv${k}`, `${scope}/conv${k}`, from, ...channels, kernel, step),
      channels[1],
      gain,
      k === 3 ? 0 : SHIFT,
    );
  let x = conv(1, input, [inChannels, width], 1, 1, 1);
  x = builder.node(`${scope}/relu`, 'Relu', [x]);
  x = conv(2, x, [width, width], 3, stride, 1);
  x = builder.node(`${scope}/relu_1`, 'Relu', [x]);
  x = conv(3, x, [width, outChannels], 1, 1, BLOCK_GAIN);
  let shortcut = input;
  if (stride !== 1 || inChannels !== outChannels) {
    const down = `${scope}/downsample/downsample`;
    shortcut = builder.convolution(
      `${path}.downsample.0`,
      `${down}.0`,
      input,
      inChannels,
      outChannels,
      1,
      stride,
    );
    shortcut = builder.batchNorm(`${path}.downsample.1`, `${down}.1`, shortcut, outChannels, 1, SHIFT);
  }
  return builder.node(`${scope}/relu_2`, 'Relu', [builder.node(scope, 'Add', [x, shortcut])]);
}

/** The network and its number of trainable parameters, 25,557,032 as torchvision's. */
export interface BuiltModel {
  /** An ONNX file: input `input` `[batch, 3, size, size]`, output `output` `[batch, classes]`, float32. */
  readonly bytes: Uint8Array;
  readonly parameters: number;
}

/** Builds the model; the same seed and shape give the same bytes on every machine. */
export function buildResNet(seed = 0, shape: ResNetShape = RESNET50): BuiltModel {
  const builder = new Builder(seed);
  let x = builder.convolution('conv1', '/conv1', 'input', 3, shape.width, 7, 2);
  x = builder.batchNorm('bn1', '/bn1', x, shape.width, 1, SHIFT);
  x = builder.node('/relu', 'Relu', [x]);
  x = builder.node('/maxpool', 'MaxPool', [x], {
    ceil_mode: 0,
    kernel_shape: [3, 3],
    pads: [1, 1, 1, 1],
    strides: [2, 2],
  });
  let channels = shape.width;
  shape.blocks.forEach((blocks, stage) => {
    const width = shape.width * 2 ** stage;
    for (let block = 0; block < blocks; block++) {
      const layer = `layer${stage + 1}`;
      const stride = stage > 0 && block === 0 ? 2 : 1;
      x = bottleneck(builder, `${layer}.${block}`, `/${layer}/${layer}.${block}`, x, channels, width, stride);
      channels = width * EXPANSION;
    }
  });
  x = builder.node('/avgpool', 'GlobalAveragePool', [x]);
  x = builder.node('', 'Flatten', [x], { axis: 1 });
  const weight = builder.parameter(
    'fc.weight',
    [shape.classes, channels],
    builder.filters(shape.classes, channels, 1 / channels),
  );
  const bias = builder.parameter('fc.bias', [shape.classes], new Float32Array(shape.classes));
  // A graph output keeps its own name, as in TorchScript's files.
  builder.node('/fc', 'Gemm', [x, weight, bias], { transB: 1 }, 'output');
  return { bytes: encode(builder, shape), parameters: builder.parameters };
}

function encode({ nodes, weights }: Builder, { size, classes }: ResNetShape): Uint8Array {
  const elemType = ELEMENT_TYPE.float32;
  return writeModel({
    irVersion: IR_VERSION,
    opset: OPSET,
    producer: 'onnx-tapir',
    description: 'A ResNet with seeded random weights: untrained, for wiring and speed, not for meaning.',
    name: 'resnet-untrained',
    nodes,
    tensors: weights,
    inputs: [{ name: 'input', elemType, dims: ['batch', 3, size, size] }],
    outputs: [{ name: 'output', elemType, dims: ['batch', classes] }],
  });
}
