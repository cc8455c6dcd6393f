/** MNASNet: Tan et al., "MnasNet: Platform-Aware Neural Architecture Search for Mobile", 2018. */
import type { Architecture, Family } from '../architecture.js';
import { divisible } from '../blocks.js';
import {
  BRANCH_GAIN,
  activate,
  add,
  batchNorm,
  conv,
  dropout,
  linear,
  meanOfPixels,
  type ConvOptions,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

/** Channels, kernel, first stride, expansion and number of the blocks of a stack. */
const STACKS = [
  [24, 3, 2, 3, 3],
  [40, 5, 2, 3, 3],
  [80, 5, 2, 6, 3],
  [96, 3, 1, 6, 2],
  [192, 5, 2, 6, 4],
  [320, 3, 1, 6, 1],
] as const;
const MOMENTUM = 1 - 0.9997;

/** A convolution, its BatchNorm and, unless left out, a ReLU, at consecutive places. */
function convNormRelu(
  layers: Module,
  at: number,
  input: Value,
  channels: number,
  { gain = 1, hasRelu = true, ...options }: ConvOptions & { gain?: number; hasRelu?: boolean } = {},
): Value {
  let x = conv(layers, String(at), input, channels, options);
  x = batchNorm(layers, String(at + 1), x, { momentum: MOMENTUM, gain });
  return hasRelu ? activate(layers, String(at + 2), x, 'relu') : x;
}

function writeBlock(
  block: Module,
  input: Value,
  channels: number,
  { kernel, stride, expansion }: { kernel: number; stride: number; expansion: number },
): Value {
  const layers = block.child('layers');
  const inner = input.channels * expansion;
  const isResidual = stride === 1 && input.channels === channels;
  let x = convNormRelu(layers, 0, input, inner);
  x = convNormRelu(layers, 3, x, inner, { kernel, stride, groups: inner });
  x = convNormRelu(layers, 6, x, channels, { gain: isResidual ? BRANCH_GAIN : 1, hasRelu: false });
  return isResidual ? add(block, x, input) : x;
}

function mnasnet(alpha: number): Architecture {
  return {
    write(network, image, { classes }) {
      const layers = network.child('layers');
      const stem = divisible(32 * alpha);
      let x = convNormRelu(layers, 0, image, stem, { kernel: 3, stride: 2 });
      x = convNormRelu(layers, 3, x, stem, { kernel: 3, groups: stem });
      x = convNormRelu(layers, 6, x, divisible(16 * alpha), { hasRelu: false });
      STACKS.forEach(([channels, kernel, stride, expansion, count], stack) => {
        const blocks = layers.child(String(8 + stack));
        for (let k = 0; k < count; k++) {
          const block = { kernel, stride: k === 0 ? stride : 1, expansion };
          x = writeBlock(blocks.child(String(k)), x, divisible(channels * alpha), block);
        }
      });
      x = convNormRelu(layers, 14, x, 1280);
      x = meanOfPixels(network, x);
      const classifier = network.child('classifier');
      x = dropout(classifier, '0', x);
      network.startHead();
      return linear(classifier, '1', x, classes);
    },
  };
}

export const MNASNETS: Family = {
  mnasnet0_5: mnasnet(0.5),
  mnasnet0_75: mnasnet(0.75),
  mnasnet1_0: mnasnet(1),
  mnasnet1_3: mnasnet(1.3),
};
