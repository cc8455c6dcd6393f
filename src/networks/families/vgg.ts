/** VGG: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2014. */
import type { Architecture, Family } from '../architecture.js';
import { activate, adaptivePool, batchNorm, conv, dropout, flatten, linear, maxPool } from '../layers.js';

/** Channels of the convolutions of each stage; a pooling ends the stage. */
type Stages = readonly (readonly number[])[];

const A: Stages = [[64], [128], [256, 256], [512, 512], [512, 512]];
const B: Stages = [
  [64, 64],
  [128, 128],
  [256, 256],
  [512, 512],
  [512, 512],
];
const D: Stages = [
  [64, 64],
  [128, 128],
  [256, 256, 256],
  [512, 512, 512],
  [512, 512, 512],
];
const E: Stages = [
  [64, 64],
  [128, 128],
  [256, 256, 256, 256],
  [512, 512, 512, 512],
  [512, 512, 512, 512],
];

function vgg(stages: Stages, hasNorm: boolean): Architecture {
  return {
    write(network, image, { classes }) {
      const features = network.child('features');
      let x = image;
      let k = 0;
      for (const stage of stages) {
        for (const channels of stage) {
          x = conv(features, String(k++), x, channels, { kernel: 3, bias: true });
          if (hasNorm) x = batchNorm(features, String(k++), x);
          x = activate(features, String(k++), x, 'relu');
        }
        x = maxPool(features, String(k++), x, { kernel: 2, stride: 2 });
      }
      x = flatten(network, adaptivePool(network, x, 7), 49);
      const classifier = network.child('classifier');
      for (const at of [0, 3]) {
        x = linear(classifier, String(at), x, 4096);
        x = activate(classifier, String(at + 1), x, 'relu');
        x = dropout(classifier, String(at + 2), x);
      }
      network.startHead();
      return linear(classifier, '6', x, classes);
    },
  };
}

export const VGGS: Family = {
  vgg11: vgg(A, false),
  vgg11_bn: vgg(A, true),
  vgg13: vgg(B, false),
  vgg13_bn: vgg(B, true),
  vgg16: vgg(D, false),
  vgg16_bn: vgg(D, true),
  vgg19: vgg(E, false),
  vgg19_bn: vgg(E, true),
};
