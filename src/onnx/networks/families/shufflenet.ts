/** ShuffleNet v2: Ma et al., "ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture Design", 2018. */
import type { Architecture, Family } from '../architecture.js';
import { activate, batchNorm, cat, conv, linear, maxPool, meanOfPixels, sizes } from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

const COUNTS = [4, 8, 4];

/** Mixes the two halves of the channels: 0, n/2, 1, n/2 + 1, … */
function shuffle(block: Module, x: Value): Value {
  const { channels } = x;
  // torchvision lists how it reads the sizes.
  block.skip(4);
  const batch = sizes(block, x.name, 0, 1);
  const pixels = sizes(block, x.name, 2, 4);
  const reshape = (y: Value, dims: readonly number[]): Value => {
    const target = block.node('Concat', [batch, block.constant(dims), pixels], { axis: 0 });
    return block.operation('view', channels, 'Reshape', [y.name, target]);
  };
  let y = reshape(x, [2, channels / 2]);
  y = block.operation('transpose', channels, 'Transpose', [y.name], { perm: [0, 2, 1, 3, 4] });
  y = block.operation('contiguous', channels, 'Identity', [y.name]);
  return reshape(y, [channels]);
}

function pointwise(branch: Module, at: number, x: Value, channels: number): Value {
  const y = batchNorm(branch, String(at + 1), conv(branch, String(at), x, channels));
  return activate(branch, String(at + 2), y, 'relu');
}

function depthwise(branch: Module, at: number, x: Value, stride: number): Value {
  const { channels } = x;
  const y = conv(branch, String(at), x, channels, { kernel: 3, stride, groups: channels });
  return batchNorm(branch, String(at + 1), y);
}

function writeBlock(block: Module, input: Value, channels: number, stride: number): Value {
  const half = channels / 2;
  const main = (input2: Value): Value => {
    const branch = block.child('branch2');
    let x = pointwise(branch, 0, input2, half);
    x = depthwise(branch, 3, x, stride);
    return pointwise(branch, 5, x, half);
  };
  if (stride === 1) {
    const [kept, x] = block.chunk(input, 2) as [Value, Value];
    return shuffle(block, cat(block, [kept, main(x)]));
  }
  const side = block.child('branch1');
  const shortcut = pointwise(side, 2, depthwise(side, 0, input, stride), half);
  return shuffle(block, cat(block, [shortcut, main(input)]));
}

/** By the channels of the three stages and of the last convolution. */
function shufflenet(widths: readonly [number, number, number], last: number): Architecture {
  return {
    write(network, image, { classes }) {
      const stem = network.child('conv1');
      let x = batchNorm(stem, '1', conv(stem, '0', image, 24, { kernel: 3, stride: 2 }));
      x = activate(stem, '2', x, 'relu');
      x = maxPool(network, 'maxpool', x, { kernel: 3, stride: 2, padding: 1 });
      widths.forEach((channels, at) => {
        const stage = network.child(`stage${at + 2}`);
        for (let k = 0; k < COUNTS[at]!; k++)
          x = writeBlock(stage.child(String(k)), x, channels, k === 0 ? 2 : 1);
      });
      x = pointwise(network.child('conv5'), 0, x, last);
      x = meanOfPixels(network, x);
      network.startHead();
      return linear(network, 'fc', x, classes);
    },
  };
}

export const SHUFFLENETS: Family = {
  shufflenet_v2_x0_5: shufflenet([48, 96, 192], 1024),
  shufflenet_v2_x1_0: shufflenet([116, 232, 464], 1024),
  shufflenet_v2_x1_5: shufflenet([176, 352, 704], 1024),
  shufflenet_v2_x2_0: shufflenet([244, 488, 976], 2048),
};
