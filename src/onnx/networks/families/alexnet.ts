/** AlexNet: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014. */
import type { Family } from '../architecture.js';
import { activate, adaptivePool, conv, dropout, flatten, linear, maxPool } from '../layers.js';

export const ALEXNETS: Family = {
  alexnet: {
    write(network, image, { classes }) {
      const features = network.child('features');
      const pool = { kernel: 3, stride: 2 };
      let x = conv(features, '0', image, 64, { kernel: 11, stride: 4, padding: 2, bias: true });
      x = activate(features, '1', x, 'relu');
      x = maxPool(features, '2', x, pool);
      x = conv(features, '3', x, 192, { kernel: 5, bias: true });
      x = activate(features, '4', x, 'relu');
      x = maxPool(features, '5', x, pool);
      [384, 256, 256].forEach((channels, k) => {
        x = conv(features, String(6 + 2 * k), x, channels, { kernel: 3, bias: true });
        x = activate(features, String(7 + 2 * k), x, 'relu');
      });
      x = maxPool(features, '12', x, pool);
      x = flatten(network, adaptivePool(network, x, 6), 36);
      const classifier = network.child('classifier');
      for (const at of [0, 3]) {
        x = dropout(classifier, String(at), x);
        x = linear(classifier, String(at + 1), x, 4096);
        x = activate(classifier, String(at + 2), x, 'relu');
      }
      network.startHead();
      return linear(classifier, '6', x, classes);
    },
  },
};
