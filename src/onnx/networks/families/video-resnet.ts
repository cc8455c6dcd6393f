/** ResNets over time: Tran et al., "A Closer Look at Spatiotemporal Convolutions for Action Recognition", 2017. */
import { KINETICS_CLASSES, type Architecture, type Family } from '../architecture.js';
import {
  BRANCH_GAIN,
  activate,
  add,
  batchNorm,
  conv,
  convolve,
  flatten,
  globalPool,
  linear,
  type ConvOptions,
  type NormOptions,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

/** How a block convolves: over time and space at once, over space alone, or over one after the other. */
type Kind = 'whole' | 'space' | 'apart';

/** A convolution that torchvision subclasses: it lists the weight and the call. */
function listedConv(parent: Module, name: string, x: Value, channels: number, options: ConvOptions): Value {
  const layer = parent.child(name);
  layer.read(
    layer.parameter('weight', [channels, x.channels, ...(options.kernel as number[])], { filters: true }),
  );
  return layer.function('conv3d', channels, () => convolve(layer, x, channels, options));
}

/** A convolution of a block; `inner` are the channels between its two parts, if it has them. */
function convKind(
  parent: Module,
  kind: Kind,
  x: Value,
  channels: number,
  stride: number,
  inner: number,
): Value {
  if (kind === 'whole') return listedConv(parent, '0', x, channels, { kernel: [3, 3, 3], stride });
  const space: ConvOptions = { kernel: [1, 3, 3], stride: [1, stride, stride] };
  if (kind === 'space') return listedConv(parent, '0', x, channels, space);
  const module = parent.child('0');
  let y = conv(module, '0', x, inner, space);
  y = activate(module, '2', batchNorm(module, '1', y), 'relu');
  return conv(module, '3', y, channels, { kernel: [3, 1, 1], stride: [stride, 1, 1] });
}

function writeBlock(block: Module, x: Value, kind: Kind, channels: number, stride: number): Value {
  // As many weights as a convolution over time and space has.
  const inner = Math.floor((x.channels * channels * 27) / (x.channels * 9 + 3 * channels));
  const step = (name: string, y: Value, by: number, norm: NormOptions = {}): Value => {
    const module = block.child(name);
    return batchNorm(module, '1', convKind(module, kind, y, channels, by, inner), norm);
  };
  let y = activate(block.child('conv1'), '2', step('conv1', x, stride), 'relu');
  y = step('conv2', y, 1, { gain: BRANCH_GAIN });
  return activate(block, 'relu', add(block, y, shortcut(block, x, kind, channels, stride)), 'relu');
}

function shortcut(block: Module, x: Value, kind: Kind, channels: number, stride: number): Value {
  if (stride === 1 && x.channels === channels) return x;
  const downsample = block.child('downsample');
  const strides = [kind === 'space' ? 1 : stride, stride, stride];
  return batchNorm(
    downsample,
    '1',
    conv(downsample, '0', x, channels, { kernel: [1, 1, 1], stride: strides }),
  );
}

/** The first layers: one convolution over time and space, or one over space and then one over time. */
function writeStem(stem: Module, clip: Value, kind: Kind): Value {
  const layer = (at: number, x: Value, channels: number, options: ConvOptions): Value => {
    const y = batchNorm(stem, String(at + 1), conv(stem, String(at), x, channels, options));
    return activate(stem, String(at + 2), y, 'relu');
  };
  if (kind !== 'apart') return layer(0, clip, 64, { kernel: [3, 7, 7], stride: [1, 2, 2] });
  return layer(3, layer(0, clip, 45, { kernel: [1, 7, 7], stride: [1, 2, 2] }), 64, { kernel: [3, 1, 1] });
}

/** Two blocks a stage; `kinds` are those of the first stage and of the others. */
function videoResnet([first, others]: readonly [Kind, Kind]): Architecture {
  return {
    task: 'video',
    classes: KINETICS_CLASSES,
    write(network, clip, { classes }) {
      let x = writeStem(network.child('stem'), clip, first);
      for (const [stage, channels] of [64, 128, 256, 512].entries()) {
        const layer = network.child(`layer${stage + 1}`);
        const kind = stage === 0 ? first : others;
        for (let k = 0; k < 2; k++)
          x = writeBlock(layer.child(String(k)), x, kind, channels, stage > 0 && k === 0 ? 2 : 1);
      }
      x = flatten(network, globalPool(network, 'avgpool', x));
      network.startHead();
      return linear(network, 'fc', x, classes);
    },
  };
}

export const VIDEO_RESNETS: Family = {
  r3d_18: videoResnet(['whole', 'whole']),
  mc3_18: videoResnet(['whole', 'space']),
  r2plus1d_18: videoResnet(['apart', 'apart']),
};
