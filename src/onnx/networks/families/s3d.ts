/** S3D: Xie et al., "Rethinking Spatiotemporal Feature Learning: Speed-Accuracy Trade-offs in Video Classification", 2017. */
import { KINETICS_CLASSES, type Family } from '../architecture.js';
import { convNorm } from '../blocks.js';
import { cat, conv, dropout, maxPool, meanOfPixels, poolAttributes, type PoolOptions } from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

const OPTIONS = { norm: { epsilon: 0.001, momentum: 0.001 }, activation: 'relu' } as const;
const POINT = { kernel: [1, 1, 1], ...OPTIONS };

/** A convolution over space, then one over time. */
function separable(module: Module, x: Value, channels: number, kernel: number, stride = 1): Value {
  const y = convNorm(module, '0', x, channels, {
    kernel: [1, kernel, kernel],
    stride: [1, stride, stride],
    ...OPTIONS,
  });
  return convNorm(module, '1', y, channels, { kernel: [kernel, 1, 1], stride: [stride, 1, 1], ...OPTIONS });
}

/** Channels of the four branches; two of them have an inner convolution. */
type Widths = readonly [number, readonly [number, number], readonly [number, number], number];

function writeBlock(block: Module, x: Value, [first, second, third, fourth]: Widths): Value {
  const two = (name: string, [inner, channels]: readonly [number, number]): Value => {
    const branch = block.child(name);
    return separable(branch.child('1'), convNorm(branch, '0', x, inner, POINT), channels, 3);
  };
  const branches = [
    convNorm(block, 'branch0', x, first, POINT),
    two('branch1', second),
    two('branch2', third),
  ];
  const branch = block.child('branch3');
  const pooled = maxPool(branch, '0', x, { kernel: [3, 3, 3], stride: 1, padding: 1 });
  return cat(block, [...branches, convNorm(branch, '1', pooled, fourth, POINT)]);
}

const HALVE_SPACE: PoolOptions = { kernel: [1, 3, 3], stride: [1, 2, 2], padding: [0, 1, 1] };

/** Poolings and blocks, from the fifth feature on. */
const BLOCKS: readonly (PoolOptions | Widths)[] = [
  HALVE_SPACE,
  [64, [96, 128], [16, 32], 32],
  [128, [128, 192], [32, 96], 64],
  { kernel: [3, 3, 3], stride: 2, padding: 1 },
  [192, [96, 208], [16, 48], 64],
  [160, [112, 224], [24, 64], 64],
  [128, [128, 256], [24, 64], 64],
  [112, [144, 288], [32, 64], 64],
  [256, [160, 320], [32, 128], 128],
  { kernel: [2, 2, 2], stride: 2 },
  [256, [160, 320], [32, 128], 128],
  [384, [192, 384], [48, 128], 128],
];

export const S3DS: Family = {
  s3d: {
    task: 'video',
    classes: KINETICS_CLASSES,
    write(network, clip, { classes }) {
      const features = network.child('features');
      let x = separable(features.child('0'), clip, 64, 7, 2);
      x = maxPool(features, '1', x, HALVE_SPACE);
      x = convNorm(features, '2', x, 64, POINT);
      x = separable(features.child('3'), x, 192, 3);
      for (const [at, block] of BLOCKS.entries()) {
        const name = String(at + 4);
        x =
          'kernel' in block ? maxPool(features, name, x, block) : writeBlock(features.child(name), x, block);
      }
      x = network.layer('avgpool', x.channels, (layer) =>
        layer.node('AveragePool', [x.name], poolAttributes({ kernel: [2, 7, 7], stride: 1 })),
      );
      const classifier = network.child('classifier');
      x = dropout(classifier, '0', x);
      network.startHead();
      x = conv(classifier, '1', x, classes, { kernel: [1, 1, 1], bias: true });
      return meanOfPixels(network, x, 3);
    },
  },
};
