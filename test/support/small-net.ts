/**
 * A convolutional network of a few nodes, for devices that take long over each kind of node: images of 16 × 16, a convolution with
 * norm, a pool whose windows overlap, a residual block, and a linear layer.
 */
import { modelBytes, type NodeSpec, type WeightSpec } from './graphs.js';

export const SMALL_SIZE = 16;
const [CHANNELS, CLASSES] = [4, 6];

/** Numbers between -0.5 and 0.5, the same each time. */
function weights(seed: number, ...dims: number[]): WeightSpec {
  const count = dims.reduce((product, size) => product * size, 1);
  return { dims, values: Array.from({ length: count }, (_, i) => Math.sin(seed + i * 12.9898) / 2) };
}

function module(
  path: string,
  op: string,
  inputs: string[],
  output: string,
  ints: NodeSpec['ints'] = {},
): NodeSpec {
  return { name: `/${path}/${op}`, op, inputs, outputs: [output], ints };
}

const CONV = { kernel_shape: [3, 3], pads: [1, 1, 1, 1] };

/** The network: `conv1`, `bn1`, `relu`, `maxpool`, `conv2`, `relu_1`, `avgpool`, `fc`. */
export function smallNet(): Uint8Array {
  const parameters = [CHANNELS];
  return modelBytes({
    inputs: [{ name: 'input', dims: ['batch', 3, SMALL_SIZE, SMALL_SIZE] }],
    outputs: [{ name: 'logits', dims: ['batch', CLASSES] }],
    nodes: [
      module('conv1', 'Conv', ['input', 'conv1.weight'], 'c1', CONV),
      module(
        'bn1',
        'BatchNormalization',
        ['c1', 'bn1.weight', 'bn1.bias', 'bn1.running_mean', 'bn1.running_var'],
        'n1',
      ),
      module('relu', 'Relu', ['n1'], 'r1'),
      module('maxpool', 'MaxPool', ['r1'], 'p1', { ...CONV, strides: [2, 2] }),
      module('conv2', 'Conv', ['p1', 'conv2.weight'], 'c2', CONV),
      { op: 'Add', inputs: ['c2', 'p1'], outputs: ['a2'], name: '/Add' },
      module('relu_1', 'Relu', ['a2'], 'r2'),
      module('avgpool', 'GlobalAveragePool', ['r2'], 'v'),
      module('flatten', 'Flatten', ['v'], 'f'),
      module('fc', 'Gemm', ['f', 'fc.weight', 'fc.bias'], 'logits', { transB: 1 }),
    ],
    initializers: {
      'conv1.weight': weights(1, CHANNELS, 3, 3, 3),
      'bn1.weight': { dims: parameters, values: [1, 0.5, 1.5, 1] },
      'bn1.bias': { dims: parameters, values: [0.1, 0, -0.1, 0.2] },
      'bn1.running_mean': { dims: parameters, values: [0, 0.1, -0.1, 0] },
      'bn1.running_var': { dims: parameters, values: [1, 0.5, 2, 1] },
      'conv2.weight': weights(2, CHANNELS, CHANNELS, 3, 3),
      'fc.weight': weights(3, CLASSES, CHANNELS),
      'fc.bias': weights(4, CLASSES),
    },
  });
}
