/**
 * ResNet: He et al., "Deep Residual Learning for Image Recognition", 2015, with the stride in the 3×3 convolution (v1.5).
 * ResNeXt: Xie et al., 2016. Wide ResNet: Zagoruyko and Komodakis, 2016.
 */
import type { Architecture, Family } from '../architecture.js';
import {
  BRANCH_GAIN,
  activate,
  add,
  batchNorm,
  conv,
  flatten,
  globalPool,
  linear,
  maxPool,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

interface Block {
  /** Channels inside a block of the first stage. */
  readonly width: number;
  readonly stride: number;
  readonly groups: number;
  readonly channels: number;
}

function basicBlock(block: Module, x: Value, { stride, channels }: Block): Value {
  let y = conv(block, 'conv1', x, channels, { kernel: 3, stride });
  y = batchNorm(block, 'bn1', y);
  y = activate(block, 'relu', y, 'relu');
  y = conv(block, 'conv2', y, channels, { kernel: 3 });
  y = batchNorm(block, 'bn2', y, { gain: BRANCH_GAIN });
  return activate(block, 'relu', add(block, y, shortcut(block, x, channels, stride)), 'relu');
}

function bottleneck(block: Module, x: Value, { width, stride, groups, channels }: Block): Value {
  let y = conv(block, 'conv1', x, width);
  y = batchNorm(block, 'bn1', y);
  y = activate(block, 'relu', y, 'relu');
  y = conv(block, 'conv2', y, width, { kernel: 3, stride, groups });
  y = batchNorm(block, 'bn2', y);
  y = activate(block, 'relu', y, 'relu');
  y = conv(block, 'conv3', y, channels);
  y = batchNorm(block, 'bn3', y, { gain: BRANCH_GAIN });
  return activate(block, 'relu', add(block, y, shortcut(block, x, channels, stride)), 'relu');
}

function shortcut(block: Module, x: Value, channels: number, stride: number): Value {
  if (stride === 1 && x.channels === channels) return x;
  const downsample = block.child('downsample');
  return batchNorm(downsample, '1', conv(downsample, '0', x, channels, { stride }));
}

interface ResNet {
  readonly blocks: readonly [number, number, number, number];
  readonly groups?: number;
  /** Width of a group in the first stage. */
  readonly groupWidth?: number;
  readonly isBasic?: boolean;
}

function resnet({ blocks, groups = 1, groupWidth = 64, isBasic = false }: ResNet): Architecture {
  return {
    write(network, image, { classes }) {
      let x = conv(network, 'conv1', image, 64, { kernel: 7, stride: 2 });
      x = batchNorm(network, 'bn1', x);
      x = activate(network, 'relu', x, 'relu');
      x = maxPool(network, 'maxpool', x, { kernel: 3, stride: 2, padding: 1 });
      blocks.forEach((count, stage) => {
        const planes = 64 * 2 ** stage;
        const layer = network.child(`layer${stage + 1}`);
        for (let k = 0; k < count; k++) {
          const stride = stage > 0 && k === 0 ? 2 : 1;
          const width = (planes * groupWidth * groups) / 64;
          const block = { width, stride, groups, channels: isBasic ? planes : 4 * planes };
          x = (isBasic ? basicBlock : bottleneck)(layer.child(String(k)), x, block);
        }
      });
      x = flatten(network, globalPool(network, 'avgpool', x));
      network.startHead();
      return linear(network, 'fc', x, classes);
    },
  };
}

export const RESNETS: Family = {
  resnet18: resnet({ blocks: [2, 2, 2, 2], isBasic: true }),
  resnet34: resnet({ blocks: [3, 4, 6, 3], isBasic: true }),
  resnet50: resnet({ blocks: [3, 4, 6, 3] }),
  resnet101: resnet({ blocks: [3, 4, 23, 3] }),
  resnet152: resnet({ blocks: [3, 8, 36, 3] }),
  resnext50_32x4d: resnet({ blocks: [3, 4, 6, 3], groups: 32, groupWidth: 4 }),
  resnext101_32x8d: resnet({ blocks: [3, 4, 23, 3], groups: 32, groupWidth: 8 }),
  resnext101_64x4d: resnet({ blocks: [3, 4, 23, 3], groups: 64, groupWidth: 4 }),
  wide_resnet50_2: resnet({ blocks: [3, 4, 6, 3], groupWidth: 128 }),
  wide_resnet101_2: resnet({ blocks: [3, 4, 23, 3], groupWidth: 128 }),
};
