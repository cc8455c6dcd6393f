/**
 * MobileNet v2: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018.
 * v3: Howard et al., "Searching for MobileNetV3", 2019.
 */
import type { Architecture, Family } from '../architecture.js';
import { convNorm, divisible, squeezeExcitation } from '../blocks.js';
import {
  BRANCH_GAIN,
  activate,
  add,
  batchNorm,
  conv,
  dropout,
  flatten,
  globalPool,
  linear,
  type Activation,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

/** Expansion, channels, number and first stride of the blocks of v2. */
const V2 = [
  [1, 16, 1, 1],
  [6, 24, 2, 2],
  [6, 32, 3, 2],
  [6, 64, 4, 2],
  [6, 96, 3, 1],
  [6, 160, 3, 2],
  [6, 320, 1, 1],
] as const;

function blockV2(block: Module, x: Value, expansion: number, channels: number, stride: number): Value {
  const body = block.child('conv');
  const inner = x.channels * expansion;
  const isResidual = stride === 1 && x.channels === channels;
  let y = x;
  let k = 0;
  if (expansion !== 1) y = convNorm(body, String(k++), y, inner, { activation: 'relu6' });
  y = convNorm(body, String(k++), y, inner, { kernel: 3, stride, groups: inner, activation: 'relu6' });
  y = conv(body, String(k++), y, channels);
  y = batchNorm(body, String(k), y, isResidual ? { gain: BRANCH_GAIN } : {});
  return isResidual ? add(block, x, y) : y;
}

const MOBILENET_V2: Architecture = {
  write(network, image, { classes }) {
    const features = network.child('features');
    let x = convNorm(features, '0', image, 32, { kernel: 3, stride: 2, activation: 'relu6' });
    let at = 1;
    for (const [expansion, channels, count, stride] of V2)
      for (let k = 0; k < count; k++)
        x = blockV2(features.child(String(at++)), x, expansion, channels, k === 0 ? stride : 1);
    x = convNorm(features, String(at), x, 1280, { activation: 'relu6' });
    x = network.operation('adaptive_avg_pool2d', x.channels, 'GlobalAveragePool', [x.name]);
    x = flatten(network, x);
    const classifier = network.child('classifier');
    x = dropout(classifier, '0', x);
    network.startHead();
    return linear(classifier, '1', x, classes);
  },
};

/** Kernel, inner channels, channels, whether it squeezes, activation, and stride of a block of v3. */
type BlockV3 = readonly [number, number, number, boolean, 'relu' | 'hardswish', 1 | 2];

const LARGE: readonly BlockV3[] = [
  [3, 16, 16, false, 'relu', 1],
  [3, 64, 24, false, 'relu', 2],
  [3, 72, 24, false, 'relu', 1],
  [5, 72, 40, true, 'relu', 2],
  [5, 120, 40, true, 'relu', 1],
  [5, 120, 40, true, 'relu', 1],
  [3, 240, 80, false, 'hardswish', 2],
  [3, 200, 80, false, 'hardswish', 1],
  [3, 184, 80, false, 'hardswish', 1],
  [3, 184, 80, false, 'hardswish', 1],
  [3, 480, 112, true, 'hardswish', 1],
  [3, 672, 112, true, 'hardswish', 1],
  [5, 672, 160, true, 'hardswish', 2],
  [5, 960, 160, true, 'hardswish', 1],
  [5, 960, 160, true, 'hardswish', 1],
];
const SMALL: readonly BlockV3[] = [
  [3, 16, 16, true, 'relu', 2],
  [3, 72, 24, false, 'relu', 2],
  [3, 88, 24, false, 'relu', 1],
  [5, 96, 40, true, 'hardswish', 2],
  [5, 240, 40, true, 'hardswish', 1],
  [5, 240, 40, true, 'hardswish', 1],
  [5, 120, 48, true, 'hardswish', 1],
  [5, 144, 48, true, 'hardswish', 1],
  [5, 288, 96, true, 'hardswish', 2],
  [5, 576, 96, true, 'hardswish', 1],
  [5, 576, 96, true, 'hardswish', 1],
];
const NORM = { epsilon: 0.001, momentum: 0.01 };

function blockV3(
  module: Module,
  x: Value,
  [kernel, inner, channels, squeezes, activation, stride]: BlockV3,
): Value {
  const block = module.child('block');
  const isResidual = stride === 1 && x.channels === channels;
  let y = x;
  let k = 0;
  if (inner !== x.channels) y = convNorm(block, String(k++), y, inner, { norm: NORM, activation });
  y = convNorm(block, String(k++), y, inner, { kernel, stride, groups: inner, norm: NORM, activation });
  if (squeezes) {
    const squeezed = divisible(Math.floor(inner / 4));
    y = squeezeExcitation(block, String(k++), y, squeezed, ['relu', 'hardsigmoid']);
  }
  const norm = { ...NORM, gain: isResidual ? BRANCH_GAIN : 1 };
  y = convNorm(block, String(k), y, channels, { norm });
  return isResidual ? add(module, y, x) : y;
}

function mobilenetV3(blocks: readonly BlockV3[], hidden: number): Architecture {
  const activation: Activation = 'hardswish';
  return {
    write(network, image, { classes }) {
      const features = network.child('features');
      let x = convNorm(features, '0', image, 16, { kernel: 3, stride: 2, norm: NORM, activation });
      blocks.forEach((block, k) => {
        x = blockV3(features.child(String(k + 1)), x, block);
      });
      x = convNorm(features, String(blocks.length + 1), x, 6 * x.channels, { norm: NORM, activation });
      x = flatten(network, globalPool(network, 'avgpool', x));
      const classifier = network.child('classifier');
      x = linear(classifier, '0', x, hidden);
      x = activate(classifier, '1', x, activation);
      x = dropout(classifier, '2', x);
      network.startHead();
      return linear(classifier, '3', x, classes);
    },
  };
}

export const MOBILENETS: Family = {
  mobilenet_v2: MOBILENET_V2,
  mobilenet_v3_large: mobilenetV3(LARGE, 1280),
  mobilenet_v3_small: mobilenetV3(SMALL, 1024),
};
