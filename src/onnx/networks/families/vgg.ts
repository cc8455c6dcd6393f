/** VGG: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2014. */
import type { Architecture, Family } from '../architecture.js';
import { activate, adaptivePool, batchNorm, conv, dropout, flatten, linear, maxPool } from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

/** Channels of the convolutions of each stage; a pooling ends the stage. */
const WIDTHS = [64, 128, 256, 512, 512];
/** Numbers of convolutions of each stage, by the letters of the paper. */
const A = [1, 1, 2, 2, 2];
const B = [2, 2, 2, 2, 2];
const D = [2, 2, 3, 3, 3];
const E = [2, 2, 4, 4, 4];

interface Features {
  readonly counts: readonly number[];
  readonly hasNorm?: boolean;
  /** Stages that are written; the last of them has no pooling. All with their poolings unless given. */
  readonly stages?: number;
  /** The stage whose pooling counts what is left at the edges. */
  readonly ceilStage?: number;
}

function writeFeatures(features: Module, image: Value, options: Features): Value {
  const { counts, hasNorm = false, stages, ceilStage } = options;
  let x = image;
  let k = 0;
  for (const [stage, channels] of WIDTHS.slice(0, stages).entries()) {
    for (let i = 0; i < counts[stage]!; i++) {
      x = conv(features, String(k++), x, channels, { kernel: 3, bias: true });
      if (hasNorm) x = batchNorm(features, String(k++), x);
      x = activate(features, String(k++), x, 'relu');
    }
    if (stage + 1 !== stages)
      x = maxPool(features, String(k++), x, { kernel: 2, stride: 2, ceil: stage === ceilStage });
  }
  return x;
}

/** VGG-16 up to the ReLU before its fourth pooling; the third one rounds sizes up, as SSD has it. */
export function writeVgg16(features: Module, image: Value): Value {
  return writeFeatures(features, image, { counts: D, stages: 4, ceilStage: 2 });
}

function vgg(counts: readonly number[], hasNorm: boolean): Architecture {
  return {
    write(network, image, { classes }) {
      let x = writeFeatures(network.child('features'), image, { counts, hasNorm });
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
