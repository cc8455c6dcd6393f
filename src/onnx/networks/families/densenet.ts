/** DenseNet: Huang et al., "Densely Connected Convolutional Networks", 2016. */
import type { Architecture, Family } from '../architecture.js';
import { activate, batchNorm, cat, conv, flatten, linear, maxPool, poolAttributes } from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

/** Channels of the 1×1 convolution, in units of the growth. */
const BOTTLENECK = 4;

function denseLayer(layer: Module, values: readonly Value[], growth: number): Value {
  let x = cat(layer, values);
  x = batchNorm(layer, 'norm1', x);
  x = activate(layer, 'relu1', x, 'relu');
  x = conv(layer, 'conv1', x, BOTTLENECK * growth);
  x = batchNorm(layer, 'norm2', x);
  x = activate(layer, 'relu2', x, 'relu');
  return conv(layer, 'conv2', x, growth, { kernel: 3 });
}

function transition(module: Module, input: Value): Value {
  let x = batchNorm(module, 'norm', input);
  x = activate(module, 'relu', x, 'relu');
  x = conv(module, 'conv', x, x.channels / 2);
  return module.layer('pool', x.channels, (layer) =>
    layer.node('AveragePool', [x.name], poolAttributes({ kernel: 2, stride: 2 })),
  );
}

function densenet(growth: number, blocks: readonly number[], stem: number): Architecture {
  return {
    renameKey: (key) => key.replace(/(denselayer\d+\.(?:norm|conv))\.(\d)\./, '$1$2.'),
    write(network, image, { classes }) {
      const features = network.child('features');
      let x = conv(features, 'conv0', image, stem, { kernel: 7, stride: 2 });
      x = batchNorm(features, 'norm0', x);
      x = activate(features, 'relu0', x, 'relu');
      x = maxPool(features, 'pool0', x, { kernel: 3, stride: 2, padding: 1 });
      blocks.forEach((layers, k) => {
        const block = features.child(`denseblock${k + 1}`);
        const values = [x];
        for (let i = 1; i <= layers; i++)
          values.push(denseLayer(block.child(`denselayer${i}`), values, growth));
        x = cat(block, values);
        if (k < blocks.length - 1) x = transition(features.child(`transition${k + 1}`), x);
      });
      x = batchNorm(features, 'norm5', x);
      x = network.operation('relu', x.channels, 'Relu', [x.name]);
      x = network.operation('adaptive_avg_pool2d', x.channels, 'GlobalAveragePool', [x.name]);
      x = flatten(network, x);
      network.startHead();
      return linear(network, 'classifier', x, classes);
    },
  };
}

export const DENSENETS: Family = {
  densenet121: densenet(32, [6, 12, 24, 16], 64),
  densenet161: densenet(48, [6, 12, 36, 24], 96),
  densenet169: densenet(32, [6, 12, 32, 32], 64),
  densenet201: densenet(32, [6, 12, 48, 32], 64),
};
