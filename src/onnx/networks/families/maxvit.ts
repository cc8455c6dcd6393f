/** MaxViT: Tu et al., "MaxViT: Multi-Axis Vision Transformer", 2022. */
import type { Family } from '../architecture.js';
import { relativePositions } from '../attention.js';
import { convNorm, permute, squeezeExcitation } from '../blocks.js';
import {
  activate,
  add,
  batchNorm,
  conv,
  dropout,
  globalPool,
  layerNorm,
  linear,
  poolAttributes,
  stochasticDepth,
  tokenLinear,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

const NORM = { epsilon: 0.001, momentum: 0.01 };
const NORM_GELU = { norm: NORM, activation: 'gelu' } as const;
const EPSILON = 1e-5;
const HEAD_WIDTH = 32;
/** Side of a window, and of the grid. */
const SIDE = 7;

function mbConv(module: Module, x: Value, channels: number, stride: number): Value {
  const shortcut = project(module, x, channels, stride);
  const layers = module.child('layers');
  const inner = 4 * channels;
  let y = batchNorm(layers, 'pre_norm', x, NORM);
  y = convNorm(layers, 'conv_a', y, inner, NORM_GELU);
  y = convNorm(layers, 'conv_b', y, inner, { ...NORM_GELU, kernel: 3, stride, groups: inner });
  y = squeezeExcitation(layers, 'squeeze_excitation', y, channels / 4, ['silu', 'sigmoid']);
  y = conv(layers, 'conv_c', y, channels, { bias: true });
  return add(module, shortcut, stochasticDepth(module, y));
}

function project(module: Module, x: Value, channels: number, stride: number): Value {
  if (stride === 1 && x.channels === channels) return dropout(module, 'proj', x);
  const proj = module.child('proj');
  const pool = { ...poolAttributes({ kernel: 3, stride, padding: 1 }), count_include_pad: 1 };
  const pooled = proj.layer('0', x.channels, (layer) => layer.node('AveragePool', [x.name], pool));
  return conv(proj, '1', pooled, channels, { bias: true });
}

function reshape(
  module: Module,
  { name }: Value,
  channels: number,
  dims: readonly number[],
  as = 'reshape',
): Value {
  return module.operation(as, channels, 'Reshape', [name, module.constant(dims)]);
}

/** Attention of `tokens` tokens, in each of `groups` groups. */
function relativeAttention(attn: Module, x: Value, groups: number): Value {
  const { channels } = x;
  const heads = channels / HEAD_WIDTH;
  const tokens = SIDE * SIDE;
  const table = attn.parameter('relative_position_bias_table', [(2 * SIDE - 1) ** 2, heads], {
    spread: 0.02,
  });
  const indices = (): number[] => relativePositions([SIDE, SIDE]);
  const index = attn.parameter('relative_position_index', [tokens, tokens], { indices });
  // torchvision lists how it reads the sizes.
  attn.skip(4);
  const joined = tokenLinear(attn, 'to_qkv', x, 3 * channels);
  const [q, k, v] = attn.chunk(joined, 3, -1).map((part) => {
    const apart = reshape(attn, part, channels, [-1, groups, tokens, heads, HEAD_WIDTH]);
    return permute(attn, apart, [0, 1, 3, 2, 4]);
  }) as [Value, Value, Value];
  const scaled = attn.operation('mul', channels, 'Mul', [k.name, attn.constant({ float: channels ** -0.5 })]);
  const scores = attn.function('einsum', heads, () => {
    const columns = attn.node('Transpose', [scaled.name], { perm: [0, 1, 2, 4, 3] });
    attn.node('MatMul', [q.name, columns]);
  });
  const places = attn.node('Reshape', [index, attn.constant([-1])]);
  let bias = attn.operation('getitem', heads, 'Gather', [attn.read(table), places], { axis: 0 });
  bias = reshape(attn, bias, heads, [tokens, tokens, heads], 'view');
  bias = permute(attn, bias, [2, 0, 1]);
  bias = attn.operation('contiguous', heads, 'Identity', [bias.name]);
  bias = attn.operation('unsqueeze', heads, 'Unsqueeze', [bias.name, attn.constant([0])]);
  const shares = attn.operation('softmax', heads, 'Softmax', [add(attn, scores, bias).name], { axis: -1 });
  let y = attn.operation('einsum', channels, 'MatMul', [shares.name, v.name]);
  y = permute(attn, y, [0, 1, 3, 2, 4]);
  return tokenLinear(attn, 'merge', reshape(attn, y, channels, [-1, groups, tokens, channels]), channels);
}

/** Attention in windows of neighbours, or in a grid of pixels that are spread over the map. */
function partitionAttention(module: Module, input: Value, kind: 'window' | 'grid', size: number): Value {
  const { channels } = input;
  const groups = (size / SIDE) ** 2;
  // A grid has as many partitions as a window has pixels; its tokens are the partitions.
  const [count, side] = kind === 'window' ? [size / SIDE, SIDE] : [SIDE, size / SIDE];
  const swap = (name: string, x: Value): Value =>
    kind === 'window'
      ? dropout(module, name, x)
      : module.child(name).operation('swapaxes', channels, 'Transpose', [x.name], { perm: [0, 2, 1, 3] });
  const split = module.child('partition_op');
  let x = reshape(split, input, channels, [-1, channels, count, side, count, side]);
  x = permute(split, x, [0, 2, 4, 3, 5, 1]);
  x = reshape(split, x, channels, [-1, count * count, side * side, channels]);
  x = swap('partition_swap', x);
  const attn = module.child('attn_layer');
  let y = layerNorm(attn, '0', x, EPSILON);
  y = relativeAttention(attn.child('1'), y, groups);
  y = dropout(attn, '2', y);
  x = add(module, x, stochasticDepth(module, y, 'stochastic_dropout'));
  const mlp = module.child('mlp_layer');
  y = layerNorm(mlp, '0', x, EPSILON);
  y = tokenLinear(mlp, '1', y, 4 * channels);
  y = activate(mlp, '2', y, 'gelu');
  y = tokenLinear(mlp, '3', y, channels);
  y = dropout(mlp, '4', y);
  x = add(module, x, stochasticDepth(module, y, 'stochastic_dropout'));
  x = swap('departition_swap', x);
  const join = module.child('departition_op');
  x = reshape(join, x, channels, [-1, count, count, side, side, channels]);
  x = permute(join, x, [0, 5, 1, 3, 2, 4]);
  return reshape(join, x, channels, [-1, channels, size, size]);
}

const WIDTHS = [64, 128, 256, 512];
const LAYERS = [2, 2, 5, 2];

export const MAXVITS: Family = {
  maxvit_t: {
    imageSize: 224,
    multipleOf: 32 * SIDE,
    write(network, image, { classes, imageSize }) {
      const stem = network.child('stem');
      let x = convNorm(stem, '0', image, 64, { ...NORM_GELU, kernel: 3, stride: 2 });
      x = conv(stem.child('1'), '0', x, 64, { kernel: 3, bias: true });
      WIDTHS.forEach((channels, at) => {
        for (let k = 0; k < LAYERS[at]!; k++) {
          const layers = network.child(`blocks.${at}.layers.${k}.layers`);
          const size = imageSize / 2 ** (at + 2);
          x = mbConv(layers.child('MBconv'), x, channels, k === 0 ? 2 : 1);
          x = partitionAttention(layers.child('window_attention'), x, 'window', size);
          x = partitionAttention(layers.child('grid_attention'), x, 'grid', size);
        }
      });
      const classifier = network.child('classifier');
      x = globalPool(classifier, '0', x);
      const pooled = x.name;
      x = classifier.layer('1', x.channels, (layer) => layer.node('Flatten', [pooled], { axis: 1 }));
      x = layerNorm(classifier, '2', x, EPSILON);
      x = linear(classifier, '3', x, x.channels);
      x = activate(classifier, '4', x, 'tanh');
      network.startHead();
      return linear(classifier, '5', x, classes, false);
    },
  },
};
