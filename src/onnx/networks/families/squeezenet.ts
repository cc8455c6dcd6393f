/** SqueezeNet: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB model size", 2016. */
import type { Architecture, Family } from '../architecture.js';
import { activate, cat, conv, dropout, flatten, globalPool, maxPool } from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

/** Squeezed channels of a fire module; a text is a pooling. */
type Step = number | 'pool';

function fire(module: Module, input: Value, squeezed: number): Value {
  const expanded = 4 * squeezed;
  const layer = (name: string, x: Value, channels: number, kernel: number): Value =>
    activate(module, `${name}_activation`, conv(module, name, x, channels, { kernel, bias: true }), 'relu');
  const x = layer('squeeze', input, squeezed, 1);
  return cat(module, [layer('expand1x1', x, expanded, 1), layer('expand3x3', x, expanded, 3)]);
}

function squeezenet(stem: { channels: number; kernel: number }, steps: readonly Step[]): Architecture {
  return {
    write(network, image, { classes }) {
      const features = network.child('features');
      const { channels, kernel } = stem;
      let x = conv(features, '0', image, channels, { kernel, stride: 2, padding: 0, bias: true });
      x = activate(features, '1', x, 'relu');
      steps.forEach((step, k) => {
        const name = String(k + 2);
        x =
          step === 'pool'
            ? maxPool(features, name, x, { kernel: 3, stride: 2, ceil: true })
            : fire(features.child(name), x, step);
      });
      const classifier = network.child('classifier');
      x = dropout(classifier, '0', x);
      network.startHead();
      x = conv(classifier, '1', x, classes, { bias: true });
      x = activate(classifier, '2', x, 'relu');
      return flatten(network, globalPool(classifier, '3', x));
    },
  };
}

const V1_0: readonly Step[] = ['pool', 16, 16, 32, 'pool', 32, 48, 48, 64, 'pool', 64];
const V1_1: readonly Step[] = ['pool', 16, 16, 'pool', 32, 32, 'pool', 48, 48, 64, 64];

export const SQUEEZENETS: Family = {
  squeezenet1_0: squeezenet({ channels: 96, kernel: 7 }, V1_0),
  squeezenet1_1: squeezenet({ channels: 64, kernel: 3 }, V1_1),
};
