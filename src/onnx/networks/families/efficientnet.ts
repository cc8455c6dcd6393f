/**
 * EfficientNet: Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", 2019.
 * v2: the same, "EfficientNetV2: Smaller Models and Faster Training", 2021.
 */
import type { Architecture, Family } from '../architecture.js';
import { convNorm, divisible, squeezeExcitation } from '../blocks.js';
import {
  BRANCH_GAIN,
  add,
  dropout,
  flatten,
  globalPool,
  linear,
  stochasticDepth,
  type NormOptions,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

/** Kind, expansion, kernel, first stride, channels and number of the blocks of a stage. */
type Stage = readonly ['mb' | 'fused', number, number, 1 | 2, number, number];

const V1: readonly Stage[] = [
  ['mb', 1, 3, 1, 16, 1],
  ['mb', 6, 3, 2, 24, 2],
  ['mb', 6, 5, 2, 40, 2],
  ['mb', 6, 3, 2, 80, 3],
  ['mb', 6, 5, 1, 112, 3],
  ['mb', 6, 5, 2, 192, 4],
  ['mb', 6, 3, 1, 320, 1],
];
const V2_S: readonly Stage[] = [
  ['fused', 1, 3, 1, 24, 2],
  ['fused', 4, 3, 2, 48, 4],
  ['fused', 4, 3, 2, 64, 4],
  ['mb', 4, 3, 2, 128, 6],
  ['mb', 6, 3, 1, 160, 9],
  ['mb', 6, 3, 2, 256, 15],
];
const V2_M: readonly Stage[] = [
  ['fused', 1, 3, 1, 24, 3],
  ['fused', 4, 3, 2, 48, 5],
  ['fused', 4, 3, 2, 80, 5],
  ['mb', 4, 3, 2, 160, 7],
  ['mb', 6, 3, 1, 176, 14],
  ['mb', 6, 3, 2, 304, 18],
  ['mb', 6, 3, 1, 512, 5],
];
const V2_L: readonly Stage[] = [
  ['fused', 1, 3, 1, 32, 4],
  ['fused', 4, 3, 2, 64, 7],
  ['fused', 4, 3, 2, 96, 7],
  ['mb', 4, 3, 2, 192, 10],
  ['mb', 6, 3, 1, 224, 19],
  ['mb', 6, 3, 2, 384, 25],
  ['mb', 6, 3, 1, 640, 7],
];

interface EfficientNet {
  readonly stages: readonly Stage[];
  readonly stem: number;
  /** Channels of the last convolution. */
  readonly last: number;
  readonly norm: NormOptions;
}

function writeBlock(
  module: Module,
  x: Value,
  [kind, expansion, kernel, , channels]: Stage,
  stride: number,
  norm: NormOptions,
): Value {
  const block = module.child('block');
  const activation = 'silu';
  const isResidual = stride === 1 && x.channels === channels;
  const lastNorm = isResidual ? { ...norm, gain: BRANCH_GAIN } : norm;
  const inner = divisible(x.channels * expansion);
  let y = x;
  let k = 0;
  if (kind === 'fused' && inner === x.channels)
    y = convNorm(block, '0', y, channels, { kernel, stride, norm: lastNorm, activation });
  else {
    if (kind === 'fused') y = convNorm(block, String(k++), y, inner, { kernel, stride, norm, activation });
    else {
      if (inner !== x.channels) y = convNorm(block, String(k++), y, inner, { norm, activation });
      y = convNorm(block, String(k++), y, inner, { kernel, stride, groups: inner, norm, activation });
      const squeezed = Math.max(1, Math.floor(x.channels / 4));
      y = squeezeExcitation(block, String(k++), y, squeezed, ['silu', 'sigmoid']);
    }
    y = convNorm(block, String(k), y, channels, { norm: lastNorm });
  }
  return isResidual ? add(module, stochasticDepth(module, y), x) : y;
}

function efficientnet({ stages, stem, last, norm }: EfficientNet): Architecture {
  return {
    write(network, image, { classes }) {
      const features = network.child('features');
      const activation = 'silu';
      let x = convNorm(features, '0', image, stem, { kernel: 3, stride: 2, norm, activation });
      stages.forEach((stage, at) => {
        const blocks = features.child(String(at + 1));
        const [, , , stride, , count] = stage;
        for (let k = 0; k < count; k++)
          x = writeBlock(blocks.child(String(k)), x, stage, k === 0 ? stride : 1, norm);
      });
      x = convNorm(features, String(stages.length + 1), x, last, { norm, activation });
      x = flatten(network, globalPool(network, 'avgpool', x));
      const classifier = network.child('classifier');
      x = dropout(classifier, '0', x);
      network.startHead();
      return linear(classifier, '1', x, classes);
    },
  };
}

/** A network of the first version, by its multiples of channels and of blocks. */
function scaled(width: number, depth: number, norm: NormOptions = {}): Architecture {
  const stages = V1.map(([kind, expansion, kernel, stride, channels, count]): Stage => [
    kind,
    expansion,
    kernel,
    stride,
    divisible(channels * width),
    Math.ceil(count * depth),
  ]);
  return efficientnet({ stages, stem: divisible(32 * width), last: 4 * divisible(320 * width), norm });
}

const LARGE_NORM = { epsilon: 0.001, momentum: 0.01 };
const V2 = { last: 1280, norm: { epsilon: 0.001 } };

export const EFFICIENTNETS: Family = {
  efficientnet_b0: scaled(1, 1),
  efficientnet_b1: scaled(1, 1.1),
  efficientnet_b2: scaled(1.1, 1.2),
  efficientnet_b3: scaled(1.2, 1.4),
  efficientnet_b4: scaled(1.4, 1.8),
  efficientnet_b5: scaled(1.6, 2.2, LARGE_NORM),
  efficientnet_b6: scaled(1.8, 2.6, LARGE_NORM),
  efficientnet_b7: scaled(2, 3.1, LARGE_NORM),
  efficientnet_v2_s: efficientnet({ ...V2, stages: V2_S, stem: 24 }),
  efficientnet_v2_m: efficientnet({ ...V2, stages: V2_M, stem: 24 }),
  efficientnet_v2_l: efficientnet({ ...V2, stages: V2_L, stem: 32 }),
};
