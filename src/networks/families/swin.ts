/**
 * Swin: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021.
 * v2: Liu et al., "Swin Transformer V2: Scaling Up Capacity and Resolution", 2021.
 */
import type { Architecture, Family } from '../architecture.js';
import { attention, dotProducts, relativePositions } from '../attention.js';
import { mlp, permuteModule } from '../blocks.js';
import {
  FILTERS,
  ONES,
  ZEROS,
  activate,
  add,
  conv,
  globalPool,
  layerNorm,
  linear,
  product,
  sizes,
  stochasticDepth,
  tokenLinear,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';
import { fromWindows, joinSizes, toWindows, windowsOf, type Windows } from '../windows.js';

const EPSILON = 1e-5;
/** Inner channels of the network that computes v2's biases of positions. */
const HIDDEN = 512;

interface Attention {
  readonly heads: number;
  readonly isShifted: boolean;
  readonly windows: Windows;
}

/** Adds a bias for the distance of tokens, and hides other regions in shifted windows. */
function biased(
  attn: Module,
  scores: string,
  bias: string,
  { heads, isShifted, windows }: Attention,
): string {
  const x = attn.node('Add', [scores, bias]);
  if (!isShifted) return x;
  const { counts, mask, side } = windows;
  const tokens = [heads, side * side, side * side];
  const count = attn.node('Mul', [...counts]);
  const apart = joinSizes(attn, [attn.constant([-1]), count, attn.constant(tokens)]);
  const masked = attn.node('Add', [attn.node('Reshape', [x, apart]), mask]);
  return attn.node('Reshape', [masked, attn.constant([-1, ...tokens])]);
}

/** Adds the parameters of a linear layer; torchvision registers them before others that it reads earlier. */
function declareLinear(layer: Module, channels: number, outputs: number): Record<'weight' | 'bias', string> {
  return {
    weight: layer.parameter('weight', [outputs, channels], FILTERS),
    bias: layer.parameter('bias', [outputs], ZEROS),
  };
}

/** `[1, heads, side², side²]` from a row per distance. */
function positionBias(attn: Module, table: string, index: string, heads: number, side: number): Value {
  return attn.function('_get_relative_position_bias', heads, () => {
    const rows = attn.node('Gather', [table, index], { axis: 0 });
    const pairs = attn.node('Reshape', [rows, attn.constant([side * side, side * side, heads])]);
    const byHead = attn.node('Transpose', [pairs], { perm: [2, 0, 1] });
    attn.node('Unsqueeze', [byHead, attn.constant([0])]);
  });
}

function attentionV1(attn: Module, x: Value, options: Attention): Value {
  const { heads, isShifted, windows } = options;
  const { side } = windows;
  const { channels } = x;
  const distances = (2 * side - 1) ** 2;
  const table = attn.parameter('relative_position_bias_table', [distances, heads], { spread: 0.02 });
  const indices = (): number[] => relativePositions(side);
  const index = attn.parameter('relative_position_index', [side ** 4], { indices });
  const qkv = declareLinear(attn.child('qkv'), channels, 3 * channels);
  const proj = declareLinear(attn.child('proj'), channels, channels);
  const bias = positionBias(attn, attn.read(table), index, heads, side);
  for (const key of [qkv.weight, proj.weight, qkv.bias, proj.bias]) attn.read(key);
  return attn.function('shifted_window_attention', channels, () => {
    const tokens = toWindows(attn, x.name, windows, { channels, isShifted });
    const joined = product(attn, tokens, qkv.weight, qkv.bias);
    const scale = attn.constant({ float: (channels / heads) ** -0.5 });
    const score = (queries: string, keys: string): string =>
      biased(attn, dotProducts(attn, attn.node('Mul', [queries, scale]), keys), bias.name, options);
    const mixed = attention(attn, joined, { channels, heads, tokens: side * side, score });
    const y = product(attn, mixed, proj.weight, proj.bias);
    fromWindows(attn, y, windows, { channels, isShifted });
  });
}

function attentionV2(attn: Module, x: Value, options: Attention): Value {
  const { heads, isShifted, windows } = options;
  const { side } = windows;
  const { channels } = x;
  const length = 2 * side - 1;
  const logitScale = attn.parameter('logit_scale', [heads, 1, 1], { fill: Math.log(10) });
  const values = (): number[] => logDistances(side);
  const coordinates = attn.parameter('relative_coords_table', [1, length, length, 2], { values });
  const indices = (): number[] => relativePositions(side);
  const index = attn.parameter('relative_position_index', [side ** 4], { indices });
  const qkv = declareLinear(attn.child('qkv'), channels, 3 * channels);
  const proj = declareLinear(attn.child('proj'), channels, channels);
  const network = attn.child('cpb_mlp');
  let table = tokenLinear(network, '0', { name: coordinates, channels: 2 }, HIDDEN);
  table = activate(network, '1', table, 'relu');
  table = tokenLinear(network, '2', table, heads, false);
  table = attn.operation('view', heads, 'Reshape', [table.name, attn.constant([-1, heads])]);
  let bias = positionBias(attn, table.name, index, heads, side);
  bias = attn.operation('sigmoid', heads, 'Sigmoid', [bias.name]);
  bias = attn.operation('mul', heads, 'Mul', [bias.name, attn.constant({ float: 16 })]);
  for (const key of [qkv.weight, proj.weight, qkv.bias, proj.bias, logitScale]) attn.read(key);
  return attn.function('shifted_window_attention', channels, () => {
    const tokens = toWindows(attn, x.name, windows, { channels, isShifted });
    // Keys have no bias.
    const [ofQueries, ofKeys, ofValues] = attn.split(qkv.bias, 0, Array<number>(3).fill(channels));
    const zeros = attn.node('Sub', [ofKeys!, ofKeys!]);
    const joinedBias = attn.node('Concat', [ofQueries!, zeros, ofValues!], { axis: 0 });
    const joined = product(attn, tokens, qkv.weight, joinedBias);
    const limit = attn.constant({ float: Math.log(100) });
    const scale = attn.node('Exp', [attn.node('Min', [logitScale, limit])]);
    const score = (queries: string, keys: string): string => {
      const cosines = dotProducts(attn, unitLength(attn, queries), unitLength(attn, keys));
      return biased(attn, attn.node('Mul', [cosines, scale]), bias.name, options);
    };
    const mixed = attention(attn, joined, { channels, heads, tokens: side * side, score });
    const y = product(attn, mixed, proj.weight, proj.bias);
    fromWindows(attn, y, windows, { channels, isShifted });
  });
}

/** Vectors along the last axis, divided by their length. */
function unitLength(module: Module, x: string): string {
  const squares = module.node('ReduceSum', [module.node('Mul', [x, x]), module.constant([-1])], {
    keepdims: 1,
  });
  const length = module.node('Max', [module.node('Sqrt', [squares]), module.constant({ float: 1e-12 })]);
  return module.node('Div', [x, length]);
}

/** Vertical and horizontal distances in a window, from −8 to 8 on a logarithmic scale. */
function logDistances(side: number): number[] {
  const steps = Array.from({ length: 2 * side - 1 }, (_, i) => {
    const distance = (8 * (i - side + 1)) / (side - 1);
    return (Math.sign(distance) * Math.log2(Math.abs(distance) + 1)) / 3;
  });
  return steps.flatMap((y) => steps.flatMap((x) => [y, x]));
}

/** Four neighbours become one token of four times the channels. */
function merge(module: Module, x: Value): Value {
  const { channels } = x;
  return module.function('_patch_merging_pad', 4 * channels, () => {
    const odd = module.node('Mod', [sizes(module, x.name, 1, 3), module.constant(2)]);
    const none = module.constant([0]);
    const pads = joinSizes(module, [none, none, none, none, none, odd, none]);
    const even = module.node('Pad', [x.name, pads]);
    const end = module.constant([2 ** 31, 2 ** 31]);
    const corners = [0, 1, 2, 3].map((corner) => {
      const start = module.constant([corner % 2, Math.floor(corner / 2)]);
      return module.node('Slice', [even, start, end, module.constant([1, 2]), module.constant([2, 2])]);
    });
    module.node('Concat', corners, { axis: -1 });
  });
}

interface Swin {
  readonly version: 1 | 2;
  readonly channels: number;
  readonly blocks: readonly [number, number, number, number];
  readonly heads: number;
  readonly side: number;
}

function blockV1(block: Module, input: Value, options: Attention): Value {
  let y = layerNorm(block, 'norm1', input, EPSILON);
  y = attentionV1(block.child('attn'), y, options);
  const x = add(block, input, stochasticDepth(block, y));
  y = mlp(block, layerNorm(block, 'norm2', x, EPSILON), 4 * x.channels);
  return add(block, x, stochasticDepth(block, y));
}

/** Norms come after what they normalise, and before it in the state dict. */
function blockV2(block: Module, input: Value, options: Attention): Value {
  declareNorm(block, 'norm1', input.channels);
  let y = attentionV2(block.child('attn'), input, options);
  y = layerNorm(block, 'norm1', y, EPSILON);
  const x = add(block, input, stochasticDepth(block, y));
  declareNorm(block, 'norm2', x.channels);
  y = layerNorm(block, 'norm2', mlp(block, x, 4 * x.channels), EPSILON);
  return add(block, x, stochasticDepth(block, y));
}

function declareNorm(block: Module, name: string, channels: number): void {
  block.child(name).parameter('weight', [channels], ONES);
  block.child(name).parameter('bias', [channels], ZEROS);
}

function swin({ version, channels, blocks, heads, side }: Swin): Architecture {
  return {
    write(network, image, { classes }) {
      const features = network.child('features');
      const stem = features.child('0');
      let x = conv(stem, '0', image, channels, { kernel: 4, stride: 4, padding: 0, bias: true });
      x = permuteModule(stem, '1', x, [0, 2, 3, 1]);
      x = layerNorm(stem, '2', x, EPSILON);
      blocks.forEach((count, at) => {
        if (at > 0) {
          const merging = features.child(String(2 * at));
          x = merge(merging, x);
          // The state dict has it before the norm in both versions.
          merging.child('reduction').parameter('weight', [x.channels / 2, x.channels], FILTERS);
          if (version === 1) x = layerNorm(merging, 'norm', x, EPSILON);
          x = tokenLinear(merging, 'reduction', x, x.channels / 2, false);
          if (version === 2) x = layerNorm(merging, 'norm', x, EPSILON);
        }
        const stage = features.child(String(2 * at + 1));
        const windows = windowsOf(stage, x.name, side);
        for (let k = 0; k < count; k++) {
          const options = { heads: heads * 2 ** at, isShifted: k % 2 === 1, windows };
          x = (version === 1 ? blockV1 : blockV2)(stage.child(String(k)), x, options);
        }
      });
      x = layerNorm(network, 'norm', x, EPSILON);
      x = permuteModule(network, 'permute', x, [0, 3, 1, 2]);
      x = globalPool(network, 'avgpool', x);
      x = network.layer('flatten', x.channels, (layer) => layer.node('Flatten', [x.name], { axis: 1 }));
      network.startHead();
      return linear(network, 'head', x, classes);
    },
  };
}

const V1 = { version: 1, side: 7 } as const;
const V2 = { version: 2, side: 8 } as const;
const TINY = { channels: 96, blocks: [2, 2, 6, 2], heads: 3 } as const;
const SMALL = { channels: 96, blocks: [2, 2, 18, 2], heads: 3 } as const;
const BASE = { channels: 128, blocks: [2, 2, 18, 2], heads: 4 } as const;

export const SWINS: Family = {
  swin_t: swin({ ...V1, ...TINY }),
  swin_s: swin({ ...V1, ...SMALL }),
  swin_b: swin({ ...V1, ...BASE }),
  swin_v2_t: swin({ ...V2, ...TINY }),
  swin_v2_s: swin({ ...V2, ...SMALL }),
  swin_v2_b: swin({ ...V2, ...BASE }),
};
