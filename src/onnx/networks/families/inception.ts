/**
 * GoogLeNet: Szegedy et al., "Going Deeper with Convolutions", 2014.
 * Inception v3: the same, "Rethinking the Inception Architecture for Computer Vision", 2015.
 */
import type { Family } from '../architecture.js';
import {
  batchNorm,
  cat,
  conv,
  dropout,
  flatten,
  globalPool,
  linear,
  maxPool,
  poolAttributes,
  type ConvOptions,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

/** A convolution without padding unless given, BatchNorm and ReLU. */
function basicConv(
  module: Module,
  name: string,
  input: Value,
  channels: number,
  options: ConvOptions = {},
): Value {
  const block = module.child(name);
  const x = batchNorm(block, 'bn', conv(block, 'conv', input, channels, { padding: 0, ...options }), {
    epsilon: 0.001,
  });
  return block.operation('relu', channels, 'Relu', [x.name]);
}

/** Channels of the four branches; two of them have an inner convolution. */
type Widths = readonly [number, readonly [number, number], readonly [number, number], number];

function googlenetBlock(block: Module, x: Value, [first, second, third, fourth]: Widths): Value {
  const same = { kernel: 3, padding: 1 };
  const branch1 = basicConv(block, 'branch1', x, first);
  const two = (name: string, [inner, channels]: readonly [number, number]): Value => {
    const branch = block.child(name);
    return basicConv(branch, '1', basicConv(branch, '0', x, inner), channels, same);
  };
  const branch2 = two('branch2', second);
  const branch3 = two('branch3', third);
  const branch4 = block.child('branch4');
  const pooled = maxPool(branch4, '0', x, { ...same, stride: 1, ceil: true });
  return cat(block, [branch1, branch2, branch3, basicConv(branch4, '1', pooled, fourth)]);
}

const GOOGLENET: readonly (readonly [string, Widths])[] = [
  ['inception3a', [64, [96, 128], [16, 32], 32]],
  ['inception3b', [128, [128, 192], [32, 96], 64]],
  ['inception4a', [192, [96, 208], [16, 48], 64]],
  ['inception4b', [160, [112, 224], [24, 64], 64]],
  ['inception4c', [128, [128, 256], [24, 64], 64]],
  ['inception4d', [112, [144, 288], [32, 64], 64]],
  ['inception4e', [256, [160, 320], [32, 128], 128]],
  ['inception5a', [256, [160, 320], [32, 128], 128]],
  ['inception5b', [384, [192, 384], [48, 128], 128]],
];

const WIDE: ConvOptions = { kernel: [1, 7], padding: [0, 3] };
const TALL: ConvOptions = { kernel: [7, 1], padding: [3, 0] };
const SAME: ConvOptions = { kernel: 3, padding: 1 };
const HALVE: ConvOptions = { kernel: 3, stride: 2 };

function averagePool(block: Module, x: Value): Value {
  const attributes = { ...poolAttributes({ kernel: 3, stride: 1, padding: 1 }), count_include_pad: 1 };
  return block.operation('avg_pool2d', x.channels, 'AveragePool', [x.name], attributes);
}

function maximumPool(block: Module, x: Value): Value {
  const attributes = poolAttributes({ kernel: 3, stride: 2 });
  return block.operation('max_pool2d', x.channels, 'MaxPool', [x.name], attributes);
}

/** A chain of convolutions `name_1`, `name_2`, … */
function chain(
  block: Module,
  name: string,
  input: Value,
  steps: readonly (readonly [number, ConvOptions?])[],
): Value {
  return steps.reduce(
    (x, [channels, options], k) => basicConv(block, `${name}_${k + 1}`, x, channels, options),
    input,
  );
}

function blockA(block: Module, x: Value, pooled: number): Value {
  return cat(block, [
    basicConv(block, 'branch1x1', x, 64),
    chain(block, 'branch5x5', x, [[48], [64, { kernel: 5, padding: 2 }]]),
    chain(block, 'branch3x3dbl', x, [[64], [96, SAME], [96, SAME]]),
    basicConv(block, 'branch_pool', averagePool(block, x), pooled),
  ]);
}

function blockB(block: Module, x: Value): Value {
  return cat(block, [
    basicConv(block, 'branch3x3', x, 384, HALVE),
    chain(block, 'branch3x3dbl', x, [[64], [96, SAME], [96, HALVE]]),
    maximumPool(block, x),
  ]);
}

function blockC(block: Module, x: Value, inner: number): Value {
  return cat(block, [
    basicConv(block, 'branch1x1', x, 192),
    chain(block, 'branch7x7', x, [[inner], [inner, WIDE], [192, TALL]]),
    chain(block, 'branch7x7dbl', x, [[inner], [inner, TALL], [inner, WIDE], [inner, TALL], [192, WIDE]]),
    basicConv(block, 'branch_pool', averagePool(block, x), 192),
  ]);
}

function blockD(block: Module, x: Value): Value {
  return cat(block, [
    chain(block, 'branch3x3', x, [[192], [320, HALVE]]),
    chain(block, 'branch7x7x3', x, [[192], [192, WIDE], [192, TALL], [192, HALVE]]),
    maximumPool(block, x),
  ]);
}

function blockE(block: Module, x: Value): Value {
  const fork = (name: string, y: Value): Value =>
    cat(block, [
      basicConv(block, `${name}a`, y, 384, { kernel: [1, 3], padding: [0, 1] }),
      basicConv(block, `${name}b`, y, 384, { kernel: [3, 1], padding: [1, 0] }),
    ]);
  return cat(block, [
    basicConv(block, 'branch1x1', x, 320),
    fork('branch3x3_2', chain(block, 'branch3x3', x, [[384]])),
    fork('branch3x3dbl_3', chain(block, 'branch3x3dbl', x, [[448], [384, SAME]])),
    basicConv(block, 'branch_pool', averagePool(block, x), 192),
  ]);
}

export const INCEPTIONS: Family = {
  googlenet: {
    unusedKeys: /^aux[12]\./,
    write(network, image, { classes }) {
      const pool = { kernel: 3, stride: 2, ceil: true };
      let x = basicConv(network, 'conv1', image, 64, { kernel: 7, stride: 2, padding: 3 });
      x = maxPool(network, 'maxpool1', x, pool);
      x = basicConv(network, 'conv2', x, 64);
      x = basicConv(network, 'conv3', x, 192, SAME);
      x = maxPool(network, 'maxpool2', x, pool);
      for (const [name, widths] of GOOGLENET) {
        if (name === 'inception4a') x = maxPool(network, 'maxpool3', x, pool);
        if (name === 'inception5a') x = maxPool(network, 'maxpool4', x, { ...pool, kernel: 2 });
        x = googlenetBlock(network.child(name), x, widths);
      }
      x = flatten(network, globalPool(network, 'avgpool', x));
      x = dropout(network, 'dropout', x);
      network.startHead();
      return linear(network, 'fc', x, classes);
    },
  },
  inception_v3: {
    unusedKeys: /^AuxLogits\./,
    write(network, image, { classes }) {
      let x = basicConv(network, 'Conv2d_1a_3x3', image, 32, HALVE);
      x = basicConv(network, 'Conv2d_2a_3x3', x, 32, { kernel: 3 });
      x = basicConv(network, 'Conv2d_2b_3x3', x, 64, SAME);
      x = maxPool(network, 'maxpool1', x, { kernel: 3, stride: 2 });
      x = basicConv(network, 'Conv2d_3b_1x1', x, 80);
      x = basicConv(network, 'Conv2d_4a_3x3', x, 192, { kernel: 3 });
      x = maxPool(network, 'maxpool2', x, { kernel: 3, stride: 2 });
      x = blockA(network.child('Mixed_5b'), x, 32);
      x = blockA(network.child('Mixed_5c'), x, 64);
      x = blockA(network.child('Mixed_5d'), x, 64);
      x = blockB(network.child('Mixed_6a'), x);
      x = blockC(network.child('Mixed_6b'), x, 128);
      x = blockC(network.child('Mixed_6c'), x, 160);
      x = blockC(network.child('Mixed_6d'), x, 160);
      x = blockC(network.child('Mixed_6e'), x, 192);
      x = blockD(network.child('Mixed_7a'), x);
      x = blockE(network.child('Mixed_7b'), x);
      x = blockE(network.child('Mixed_7c'), x);
      x = dropout(network, 'dropout', globalPool(network, 'avgpool', x));
      x = flatten(network, x);
      network.startHead();
      return linear(network, 'fc', x, classes);
    },
  },
};
