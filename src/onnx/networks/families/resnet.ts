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
  type NormOptions,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

interface Block {
  /** Channels inside a block of the first stage. */
  readonly width: number;
  readonly stride: number;
  readonly dilation: number;
  readonly groups: number;
  readonly channels: number;
  readonly norm: NormOptions;
}

function basicBlock(block: Module, x: Value, options: Block): Value {
  const { stride, channels, norm } = options;
  let y = conv(block, 'conv1', x, channels, { kernel: 3, stride });
  y = batchNorm(block, 'bn1', y, norm);
  y = activate(block, 'relu', y, 'relu');
  y = conv(block, 'conv2', y, channels, { kernel: 3 });
  y = batchNorm(block, 'bn2', y, { ...norm, gain: BRANCH_GAIN });
  return activate(block, 'relu', add(block, y, shortcut(block, x, options)), 'relu');
}

function bottleneck(block: Module, x: Value, options: Block): Value {
  const { width, stride, dilation, groups, channels, norm } = options;
  let y = conv(block, 'conv1', x, width);
  y = batchNorm(block, 'bn1', y, norm);
  y = activate(block, 'relu', y, 'relu');
  y = conv(block, 'conv2', y, width, { kernel: 3, stride, dilation, groups });
  y = batchNorm(block, 'bn2', y, norm);
  y = activate(block, 'relu', y, 'relu');
  y = conv(block, 'conv3', y, channels);
  y = batchNorm(block, 'bn3', y, { ...norm, gain: BRANCH_GAIN });
  return activate(block, 'relu', add(block, y, shortcut(block, x, options)), 'relu');
}

function shortcut(block: Module, x: Value, { channels, stride, norm }: Block): Value {
  if (stride === 1 && x.channels === channels) return x;
  const downsample = block.child('downsample');
  return batchNorm(downsample, '1', conv(downsample, '0', x, channels, { stride }), norm);
}

interface ResNet {
  readonly blocks: readonly [number, number, number, number];
  readonly groups?: number;
  /** Width of a group in the first stage. */
  readonly groupWidth?: number;
  readonly isBasic?: boolean;
}

interface StageOptions {
  /** Whether the last two stages keep the size of the map: their convolutions are dilated instead. */
  readonly isDilated?: boolean;
  readonly norm?: NormOptions;
}

/** Writes everything before the pooling. Returns what the four stages give. */
function writeStages(
  network: Module,
  image: Value,
  { blocks, groups = 1, groupWidth = 64, isBasic = false }: ResNet,
  { isDilated = false, norm = {} }: StageOptions = {},
): Value[] {
  let x = conv(network, 'conv1', image, 64, { kernel: 7, stride: 2 });
  x = batchNorm(network, 'bn1', x, norm);
  x = activate(network, 'relu', x, 'relu');
  x = maxPool(network, 'maxpool', x, { kernel: 3, stride: 2, padding: 1 });
  let dilation = 1;
  return blocks.map((count, stage) => {
    const planes = 64 * 2 ** stage;
    const width = (planes * groupWidth * groups) / 64;
    const channels = isBasic ? planes : 4 * planes;
    const layer = network.child(`layer${stage + 1}`);
    // The first block of a stage keeps the dilation of the stage before.
    const before = dilation;
    const halves = stage > 0 && !(isDilated && stage > 1);
    if (stage > 1 && isDilated) dilation *= 2;
    for (let k = 0; k < count; k++) {
      const stride = halves && k === 0 ? 2 : 1;
      const block = { width, stride, dilation: k === 0 ? before : dilation, groups, channels, norm };
      x = (isBasic ? basicBlock : bottleneck)(layer.child(String(k)), x, block);
    }
    return x;
  });
}

function resnet(shape: ResNet): Architecture {
  return {
    write(network, image, { classes }) {
      const x = writeStages(network, image, shape).at(-1)!;
      const vector = flatten(network, globalPool(network, 'avgpool', x));
      network.startHead();
      return linear(network, 'fc', vector, classes);
    },
  };
}

const RESNET50: ResNet = { blocks: [3, 4, 6, 3] };
const RESNET101: ResNet = { blocks: [3, 4, 23, 3] };

/** What the four stages give, of the networks that others stand on. */
export type ResNetBody = (network: Module, image: Value, options?: StageOptions) => Value[];

export const RESNET_BODIES: Readonly<Record<'resnet50' | 'resnet101', ResNetBody>> = {
  resnet50: (network, image, options) => writeStages(network, image, RESNET50, options),
  resnet101: (network, image, options) => writeStages(network, image, RESNET101, options),
};

export const RESNETS: Family = {
  resnet18: resnet({ blocks: [2, 2, 2, 2], isBasic: true }),
  resnet34: resnet({ blocks: [3, 4, 6, 3], isBasic: true }),
  resnet50: resnet(RESNET50),
  resnet101: resnet(RESNET101),
  resnet152: resnet({ blocks: [3, 8, 36, 3] }),
  resnext50_32x4d: resnet({ blocks: [3, 4, 6, 3], groups: 32, groupWidth: 4 }),
  resnext101_32x8d: resnet({ blocks: [3, 4, 23, 3], groups: 32, groupWidth: 8 }),
  resnext101_64x4d: resnet({ blocks: [3, 4, 23, 3], groups: 64, groupWidth: 4 }),
  wide_resnet50_2: resnet({ blocks: [3, 4, 6, 3], groupWidth: 128 }),
  wide_resnet101_2: resnet({ blocks: [3, 4, 23, 3], groupWidth: 128 }),
};
