/**
 * Swin: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021.
 * Video: Liu et al., "Video Swin Transformer", 2021.
 * v2: Liu et al., "Swin Transformer V2: Scaling Up Capacity and Resolution", 2021.
 */
import { KINETICS_CLASSES, type Architecture, type Family } from '../architecture.js';
import { attention, dotProducts, relativePositions } from '../attention.js';
import { mlp, permute, permuteModule } from '../blocks.js';
import {
  FILTERS,
  ONES,
  ZEROS,
  activate,
  add,
  conv,
  dropout,
  globalPool,
  layerNorm,
  linear,
  product,
  sizes,
  stochasticDepth,
  tokenLinear,
  unitLength,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';
import { fromWindows, joinSizes, toWindows, windowsOf, type Windows, type WindowShape } from '../windows.js';

const EPSILON = 1e-5;
/** Inner channels of the network that computes v2's biases of positions. */
const HIDDEN = 512;

interface Attention {
  readonly heads: number;
  readonly isShifted: boolean;
  readonly windows: Windows;
  readonly shape: WindowShape;
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
  const { counts, mask, tokens } = windows;
  const pairs = [attn.constant([heads]), tokens, tokens];
  const count = counts.reduce((product, one) => attn.node('Mul', [product, one]));
  const batch = attn.constant([-1]);
  const apart = joinSizes(attn, [batch, count, ...pairs]);
  const masked = attn.node('Add', [attn.node('Reshape', [x, apart]), mask]);
  return attn.node('Reshape', [masked, joinSizes(attn, [batch, ...pairs])]);
}

/** Adds the parameters of a linear layer; torchvision registers them before others that it reads earlier. */
function declareLinear(layer: Module, channels: number, outputs: number): Record<'weight' | 'bias', string> {
  return {
    weight: layer.parameter('weight', [outputs, channels], FILTERS),
    bias: layer.parameter('bias', [outputs], ZEROS),
  };
}

/** `[1, heads, tokens, tokens]` from a row per distance. */
function positionBias(
  attn: Module,
  table: string,
  index: string,
  { heads, windows, shape }: Attention,
): Value {
  return attn.function('_get_relative_position_bias', heads, () => {
    const { tokens } = windows;
    // Windows that become smaller have the first rows and columns, as in torchvision.
    const start = attn.constant([0, 0]);
    const shown = shape.isAdaptive
      ? attn.node('Slice', [index, start, joinSizes(attn, [tokens, tokens]), attn.constant([0, 1])])
      : index;
    const rows = attn.node('Gather', [table, shown], { axis: 0 });
    const volume = volumeOf(shape);
    const pairs = shape.isAdaptive
      ? rows
      : attn.node('Reshape', [rows, attn.constant([volume, volume, heads])]);
    const byHead = attn.node('Transpose', [pairs], { perm: [2, 0, 1] });
    attn.node('Unsqueeze', [byHead, attn.constant([0])]);
  });
}

function volumeOf({ sides }: WindowShape): number {
  return sides.reduce((product, side) => product * side, 1);
}

/** Tokens of a window where their number is fixed. */
function fixedTokens(shape: WindowShape): { readonly tokens?: number } {
  return shape.isAdaptive ? {} : { tokens: volumeOf(shape) };
}

function attentionV1(attn: Module, x: Value, options: Attention): Value {
  const { heads, isShifted, windows, shape } = options;
  const { channels } = x;
  const distances = shape.sides.reduce((product, side) => product * (2 * side - 1), 1);
  const table = attn.parameter('relative_position_bias_table', [distances, heads], { spread: 0.02 });
  const indices = (): number[] => relativePositions(shape.sides);
  const volume = volumeOf(shape);
  const dims = shape.isAdaptive ? [volume, volume] : [volume ** 2];
  const index = attn.parameter('relative_position_index', dims, { indices });
  const qkv = declareLinear(attn.child('qkv'), channels, 3 * channels);
  const proj = declareLinear(attn.child('proj'), channels, channels);
  const bias = positionBias(attn, attn.read(table), index, options);
  for (const key of [qkv.weight, proj.weight, qkv.bias, proj.bias]) attn.read(key);
  const name = shape.sides.length === 2 ? 'shifted_window_attention' : 'shifted_window_attention_3d';
  return attn.function(name, channels, () => {
    const tokens = toWindows(attn, x.name, windows, { channels, isShifted });
    const joined = product(attn, tokens, qkv.weight, qkv.bias);
    const scale = attn.constant({ float: (channels / heads) ** -0.5 });
    const score = (queries: string, keys: string): string =>
      biased(attn, dotProducts(attn, attn.node('Mul', [queries, scale]), keys), bias.name, options);
    const mixed = attention(attn, joined, { channels, heads, ...fixedTokens(shape), score });
    const y = product(attn, mixed, proj.weight, proj.bias);
    fromWindows(attn, y, windows, { channels, isShifted });
  });
}

function attentionV2(attn: Module, x: Value, options: Attention): Value {
  const { heads, isShifted, windows, shape } = options;
  const [side] = shape.sides as [number];
  const { channels } = x;
  const length = 2 * side - 1;
  const logitScale = attn.parameter('logit_scale', [heads, 1, 1], { fill: Math.log(10) });
  const values = (): number[] => logDistances(side);
  const coordinates = attn.parameter('relative_coords_table', [1, length, length, 2], { values });
  const indices = (): number[] => relativePositions(shape.sides);
  const index = attn.parameter('relative_position_index', [side ** 4], { indices });
  const qkv = declareLinear(attn.child('qkv'), channels, 3 * channels);
  const proj = declareLinear(attn.child('proj'), channels, channels);
  const network = attn.child('cpb_mlp');
  let table = tokenLinear(network, '0', { name: coordinates, channels: 2 }, HIDDEN);
  table = activate(network, '1', table, 'relu');
  table = tokenLinear(network, '2', table, heads, false);
  table = attn.operation('view', heads, 'Reshape', [table.name, attn.constant([-1, heads])]);
  let bias = positionBias(attn, table.name, index, options);
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
      const cosines = dotProducts(attn, unitLength(attn, queries, -1), unitLength(attn, keys, -1));
      return biased(attn, attn.node('Mul', [cosines, scale]), bias.name, options);
    };
    const mixed = attention(attn, joined, { channels, heads, ...fixedTokens(shape), score });
    const y = product(attn, mixed, proj.weight, proj.bias);
    fromWindows(attn, y, windows, { channels, isShifted });
  });
}

/** Vertical and horizontal distances in a window, from −8 to 8 on a logarithmic scale. */
function logDistances(side: number): number[] {
  const steps = Array.from({ length: 2 * side - 1 }, (_, i) => {
    const distance = (8 * (i - side + 1)) / (side - 1);
    return (Math.sign(distance) * Math.log2(Math.abs(distance) + 1)) / 3;
  });
  return steps.flatMap((y) => steps.flatMap((x) => [y, x]));
}

/** Four neighbours become one token of four times the channels; `first` is the axis of the height. */
function merge(module: Module, x: Value, first: number): Value {
  const { channels } = x;
  return module.function('_patch_merging_pad', 4 * channels, () => {
    const axes = module.constant([first, first + 1]);
    const odd = module.node('Mod', [sizes(module, x.name, first, first + 2), module.constant(2)]);
    const none = module.constant([0]);
    const before = Array.from({ length: 2 * first + 3 }, () => none);
    const even = module.node('Pad', [x.name, joinSizes(module, [...before, odd, none])]);
    const end = module.constant([2 ** 31, 2 ** 31]);
    const corners = [0, 1, 2, 3].map((corner) => {
      const start = module.constant([corner % 2, Math.floor(corner / 2)]);
      return module.node('Slice', [even, start, end, axes, module.constant([2, 2])]);
    });
    module.node('Concat', corners, { axis: -1 });
  });
}

interface Swin {
  readonly version: 1 | 2;
  readonly channels: number;
  readonly blocks: readonly [number, number, number, number];
  readonly heads: number;
  readonly shape: WindowShape;
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

/** Patches of an image as tokens. */
function embedImage(features: Module, image: Value, channels: number): Value {
  const stem = features.child('0');
  let x = conv(stem, '0', image, channels, { kernel: 4, stride: 4, padding: 0, bias: true });
  x = permuteModule(stem, '1', x, [0, 2, 3, 1]);
  return layerNorm(stem, '2', x, EPSILON);
}

/** Frames, height and width of a patch of a video. */
const PATCH = [2, 4, 4];

/** Patches of a clip as tokens; it is padded to whole patches. */
function embedClip(network: Module, clip: Value, channels: number): Value {
  const module = network.child('patch_embed');
  const sides = module.constant(PATCH);
  const rest = module.node('Mod', [sizes(module, clip.name, 2, 5), sides]);
  const missing = module.node('Mod', [module.node('Sub', [sides, rest]), sides]);
  const pads = joinSizes(module, [...Array.from({ length: 7 }, () => module.constant([0])), missing]);
  let x = module.operation('pad', clip.channels, 'Pad', [clip.name, pads]);
  x = conv(module, 'proj', x, channels, { kernel: PATCH, stride: PATCH, padding: 0, bias: true });
  x = permute(module, x, [0, 2, 3, 4, 1]);
  return dropout(network, 'pos_drop', layerNorm(module, 'norm', x, EPSILON));
}

/** Writes the stages; `from` is the number of the first one among the features. */
function writeStages(
  features: Module,
  tokens: Value,
  { version, blocks, heads, shape }: Swin,
  from: number,
): Value {
  let x = tokens;
  blocks.forEach((count, at) => {
    if (at > 0) {
      const merging = features.child(String(2 * at + from - 1));
      x = merge(merging, x, shape.sides.length - 1);
      // The state dict has it before the norm in both versions.
      merging.child('reduction').parameter('weight', [x.channels / 2, x.channels], FILTERS);
      if (version === 1) x = layerNorm(merging, 'norm', x, EPSILON);
      x = tokenLinear(merging, 'reduction', x, x.channels / 2, false);
      if (version === 2) x = layerNorm(merging, 'norm', x, EPSILON);
    }
    const stage = features.child(String(2 * at + from));
    const windows = windowsOf(stage, x.name, shape);
    for (let k = 0; k < count; k++) {
      const options = { heads: heads * 2 ** at, isShifted: k % 2 === 1, windows, shape };
      x = (version === 1 ? blockV1 : blockV2)(stage.child(String(k)), x, options);
    }
  });
  return x;
}

function swin(options: Swin): Architecture {
  const isVideo = options.shape.sides.length === 3;
  return {
    ...(isVideo ? { task: 'video', classes: KINETICS_CLASSES } : {}),
    write(network, image, { classes }) {
      const features = network.child('features');
      let x = isVideo
        ? embedClip(network, image, options.channels)
        : embedImage(features, image, options.channels);
      x = writeStages(features, x, options, isVideo ? 0 : 1);
      x = layerNorm(network, 'norm', x, EPSILON);
      x = isVideo ? permute(network, x, [0, 4, 1, 2, 3]) : permuteModule(network, 'permute', x, [0, 3, 1, 2]);
      x = globalPool(network, 'avgpool', x);
      x = network.layer('flatten', x.channels, (layer) => layer.node('Flatten', [x.name], { axis: 1 }));
      network.startHead();
      return linear(network, 'head', x, classes);
    },
  };
}

const V1 = { version: 1, shape: { sides: [7, 7], isAdaptive: false } } as const;
const V2 = { version: 2, shape: { sides: [8, 8], isAdaptive: false } } as const;
const VIDEO = { version: 1, shape: { sides: [8, 7, 7], isAdaptive: true } } as const;
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
  swin3d_t: swin({ ...VIDEO, ...TINY }),
  swin3d_s: swin({ ...VIDEO, ...SMALL }),
  swin3d_b: swin({ ...VIDEO, ...BASE }),
};
