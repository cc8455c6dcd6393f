/** ConvNeXt: Liu et al., "A ConvNet for the 2020s", 2022. */
import type { Architecture, Family } from '../architecture.js';
import { permute, permuteModule } from '../blocks.js';
import {
  ONES,
  ZEROS,
  activate,
  add,
  conv,
  globalPool,
  layerNorm,
  linear,
  stochasticDepth,
  tokenLinear,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

const EPSILON = 1e-6;
const TO_LAST = [0, 2, 3, 1];
const TO_FIRST = [0, 3, 1, 2];

/** A LayerNorm over the channels of a map. torchvision lists its steps. */
function layerNorm2d(module: Module, input: Value): Value {
  const dims = [input.channels];
  let x = permute(module, input, TO_LAST);
  const weight = module.read(module.parameter('weight', dims, ONES));
  const bias = module.read(module.parameter('bias', dims, ZEROS));
  const attributes = { axis: -1, epsilon: { float: EPSILON } };
  x = module.operation('layer_norm', x.channels, 'LayerNormalization', [x.name, weight, bias], attributes);
  return permute(module, x, TO_FIRST);
}

function writeBlock(module: Module, x: Value): Value {
  const { channels } = x;
  const scale = module.read(module.parameter('layer_scale', [channels, 1, 1], { fill: 0.25 }));
  const block = module.child('block');
  let y = conv(block, '0', x, channels, { kernel: 7, groups: channels, bias: true });
  y = permuteModule(block, '1', y, TO_LAST);
  y = layerNorm(block, '2', y, EPSILON);
  y = tokenLinear(block, '3', y, 4 * channels);
  y = activate(block, '4', y, 'gelu');
  y = tokenLinear(block, '5', y, channels);
  y = permuteModule(block, '6', y, TO_FIRST);
  y = module.operation('mul', channels, 'Mul', [scale, y.name]);
  return add(module, stochasticDepth(module, y), x);
}

function convnext(widths: readonly number[], counts: readonly number[]): Architecture {
  return {
    write(network, image, { classes }) {
      const features = network.child('features');
      let x = image;
      widths.forEach((channels, stage) => {
        const entry = features.child(String(2 * stage));
        if (stage === 0) {
          x = conv(entry, '0', x, channels, { kernel: 4, stride: 4, padding: 0, bias: true });
          x = layerNorm2d(entry.child('1'), x);
        } else {
          x = layerNorm2d(entry.child('0'), x);
          x = conv(entry, '1', x, channels, { kernel: 2, stride: 2, padding: 0, bias: true });
        }
        const blocks = features.child(String(2 * stage + 1));
        for (let k = 0; k < counts[stage]!; k++) x = writeBlock(blocks.child(String(k)), x);
      });
      const classifier = network.child('classifier');
      x = layerNorm2d(classifier.child('0'), globalPool(network, 'avgpool', x));
      x = classifier.layer('1', x.channels, (layer) => layer.node('Flatten', [x.name], { axis: 1 }));
      network.startHead();
      return linear(classifier, '2', x, classes);
    },
  };
}

export const CONVNEXTS: Family = {
  convnext_tiny: convnext([96, 192, 384, 768], [3, 3, 9, 3]),
  convnext_small: convnext([96, 192, 384, 768], [3, 3, 27, 3]),
  convnext_base: convnext([128, 256, 512, 1024], [3, 3, 27, 3]),
  convnext_large: convnext([192, 384, 768, 1536], [3, 3, 27, 3]),
};
