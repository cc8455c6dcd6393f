/**
 * MViT: Fan et al., "Multiscale Vision Transformers", 2021.
 * v2: Li et al., "MViTv2: Improved Multiscale Vision Transformers for Classification and Detection", 2021.
 */
import { KINETICS_CLASSES, type Architecture, type Family } from '../architecture.js';
import { mlp } from '../blocks.js';
import {
  add,
  conv,
  dropout,
  layerNorm,
  linear,
  maxPool,
  sizes,
  stochasticDepth,
  tokenLinear,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

const EPSILON = 1e-6;
const SPREAD = { spread: 0.02 };

/** Frames, height and width of a grid of tokens; a class token comes before them. */
type Grid = readonly [number, number, number];

const countOf = ([frames, height, width]: Grid): number => frames * height * width;

/** The grid behind a pooling of kernel 3 that keeps the edges. */
const pooledGrid = ([frames, height, width]: Grid, stride: number): Grid => [
  frames,
  Math.ceil(height / stride),
  Math.ceil(width / stride),
];

interface MViT {
  readonly version: 1 | 2;
  /** Input channels, output channels and heads of every block. */
  readonly blocks: readonly (readonly [input: number, output: number, heads: number])[];
  /** The stride over height and width with which queries are pooled, by block; 1 elsewhere. */
  readonly queryStrides: Readonly<Record<number, number>>;
  /** The same of keys and values. */
  readonly keyStrides: readonly number[];
}

interface Block {
  readonly version: 1 | 2;
  readonly heads: number;
  /** Channels of the attention. */
  readonly channels: number;
  readonly grid: Grid;
  readonly queryStride: number;
  readonly keyStride: number;
}

interface Pooling {
  readonly grid: Grid;
  readonly stride: number;
  readonly heads: number;
}

/** `Pool`: tokens `[batch, heads, tokens, channels]` as maps of a grid, pooled by `write`, and as tokens again. The class token stays. */
function pool(
  module: Module,
  tokens: Value,
  { grid, stride, heads }: Pooling,
  write: (map: Value) => Value,
): Value {
  const { channels } = tokens;
  const operation = (name: string, opType: string, inputs: readonly string[], attributes = {}): Value =>
    module.operation(name, channels, opType, inputs, attributes);
  // torchvision lists an integer beside the tokens.
  module.skip(1);
  const cut = (start: number, end: number): Value =>
    operation('getitem', 'Slice', [tokens.name, ...[start, end, 2].map((at) => module.constant([at]))]);
  const [token, rest] = [cut(0, 1), cut(1, 2 ** 31)];
  const turn = (value: Value): Value =>
    operation('transpose', 'Transpose', [value.name], { perm: [0, 1, 3, 2] });
  const reshape = (value: Value, shape: readonly number[]): Value =>
    operation('reshape', 'Reshape', [value.name, module.constant(shape)]);
  const map = operation('contiguous', 'Identity', [reshape(turn(rest), [-1, channels, ...grid]).name]);
  const back = turn(reshape(write(map), [-1, heads, channels, countOf(pooledGrid(grid, stride))]));
  return operation('cat', 'Concat', [token.name, back.name], { axis: 2 });
}

/** Queries, keys or values, pooled by a convolution of each channel. */
function poolHeads(attn: Module, name: string, x: Value, pooling: Pooling): Value {
  const module = attn.child(name);
  const { stride } = pooling;
  const options = { kernel: [3, 3, 3], stride: [1, stride, stride], groups: x.channels };
  const tokens = module.operation('getitem', x.channels, 'Identity', [x.name]);
  const y = pool(module, tokens, pooling, (map) => conv(module, 'pool', map, x.channels, options));
  const normed = layerNorm(module.child('norm_act'), '0', y, EPSILON);
  return module.operation('_squeeze', x.channels, 'Identity', [normed.name]);
}

/** The tokens that an attention with fewer queries is added to. */
function poolSkip(block: Module, x: Value, grid: Grid, stride: number): Value {
  if (stride === 1) return x;
  const module = block.child('pool_skip');
  const options = { kernel: [1, 3, 3], stride: [1, stride, stride], padding: [0, 1, 1] };
  const one = module.constant([1]);
  const tokens = module.operation('getitem', x.channels, 'Unsqueeze', [x.name, one]);
  const y = pool(module, tokens, { grid, stride, heads: 1 }, (map) => maxPool(module, 'pool', map, options));
  return module.operation('_squeeze', x.channels, 'Squeeze', [y.name, one]);
}

/** Axes of places: frames, rows, columns. */
const AXES = ['t', 'h', 'w'] as const;

/** Declares the tables of distances of v2, one per axis. */
function declareDistances(attn: Module, width: number, { grid, queryStride, keyStride }: Block): string[] {
  const side = Math.max(grid[1] / queryStride, grid[2] / queryStride, grid[1] / keyStride);
  const lengths = { h: 2 * side - 1, w: 2 * side - 1, t: 2 * grid[0] - 1 };
  const tables = new Map(
    (['h', 'w', 't'] as const).map((axis) => [
      axis,
      attn.parameter(`rel_pos_${axis}`, [lengths[axis], width], SPREAD),
    ]),
  );
  return AXES.map((axis) => tables.get(axis)!);
}

/** Adds to scores what queries think of distances along each axis. The class token has no place. */
function addDistances(
  attn: Module,
  scores: Value,
  queries: Value,
  tables: readonly string[],
  block: Block,
): Value {
  const { heads, grid } = block;
  const [from, to] = [pooledGrid(grid, block.queryStride), pooledGrid(grid, block.keyStride)];
  const width = queries.channels;
  const whole = (values: readonly number[]): string => attn.constant(values);
  const reshape = (x: string, shape: readonly number[]): string => attn.node('Reshape', [x, whole(shape)]);
  return attn.function('_add_rel_pos', scores.channels, () => {
    const placed = attn.node('Slice', [queries.name, whole([1]), whole([2 ** 31]), whole([2])]);
    const q = reshape(placed, [-1, heads, ...from, width]);
    const biases = tables.map((table, axis) => {
      const rows = attn.node('Gather', [table, whole(distances(from[axis]!, to[axis]!))], { axis: 0 });
      const keys = reshape(rows, [from[axis]!, to[axis]!, width]);
      const columns = attn.node('Transpose', [keys], { perm: [0, 2, 1] });
      // The axis of the table stands before the queries of one row of it: [batch, heads, …, axis, queries, width].
      const others = [2, 3, 4].filter((one) => one !== axis + 2);
      const perm = [0, 1, others[0]!, axis + 2, others[1]!, 5];
      const products = attn.node('MatMul', [attn.node('Transpose', [q], { perm }), columns]);
      const back = [0, 1, 2, 3, 4, 5].map((one) => perm.indexOf(one));
      const shape = [1, 1, 1].map((one, at) => (at === axis ? to[axis]! : one));
      return reshape(attn.node('Transpose', [products], { perm: back }), [
        -1,
        heads,
        countOf(from),
        ...shape,
      ]);
    });
    const [t, h, w] = biases as [string, string, string];
    const sum = attn.node('Add', [attn.node('Add', [h, w]), t]);
    const flat = reshape(sum, [-1, heads, countOf(from), countOf(to)]);
    attn.node('Add', [scores.name, attn.node('Pad', [flat, whole([0, 0, 1, 1, 0, 0, 0, 0])])]);
  });
}

/** For every pair of places along an axis: the row of their distance; the fewer ones lie further apart. */
function distances(from: number, to: number): number[] {
  const [own, other] = [Math.max(to / from, 1), Math.max(from / to, 1)];
  return Array.from({ length: from * to }, (_, at) =>
    Math.trunc(Math.floor(at / to) * own - ((at % to) + 1 - to) * other),
  );
}

/** Adds the queries to what the attention gives, but not those of the class token. */
function addQueries(attn: Module, x: Value, queries: Value): Value {
  const cut = (tensor: string, start: number, end: number): string =>
    attn.node('Slice', [tensor, ...[start, end, 2].map((at) => attn.constant([at]))]);
  return attn.function('_add_shortcut', x.channels, () => {
    const rest = attn.node('Add', [cut(x.name, 1, 2 ** 31), cut(queries.name, 1, 2 ** 31)]);
    attn.node('Concat', [cut(x.name, 0, 1), rest], { axis: 2 });
  });
}

function writeAttention(attn: Module, x: Value, block: Block): Value {
  const { version, heads, channels, grid, queryStride, keyStride } = block;
  const width = channels / heads;
  const operation = (name: string, opType: string, inputs: readonly string[], attributes = {}): Value =>
    attn.operation(name, width, opType, inputs, attributes);
  const tables = version === 2 ? declareDistances(attn, width, block) : [];
  attn.skip(3);
  const qkv = tokenLinear(attn, 'qkv', x, 3 * channels);
  const apart = operation('reshape', 'Reshape', [qkv.name, attn.constant([0, 0, 3, heads, width])]);
  const byHead = operation('transpose', 'Transpose', [apart.name], { perm: [0, 3, 2, 1, 4] });
  let [q, k, v] = [0, 1, 2].map((at) =>
    operation('getitem', 'Gather', [byHead.name, attn.constant(at)], { axis: 2 }),
  ) as [Value, Value, Value];
  k = poolHeads(attn, 'pool_k', k, { grid, stride: keyStride, heads });
  v = poolHeads(attn, 'pool_v', v, { grid, stride: keyStride, heads });
  if (version === 2 || queryStride > 1)
    q = poolHeads(attn, 'pool_q', q, { grid, stride: queryStride, heads });
  const scaled = operation('mul', 'Mul', [q.name, attn.constant({ float: 1 / Math.sqrt(width) })]);
  const columns = operation('transpose', 'Transpose', [k.name], { perm: [0, 1, 3, 2] });
  let scores = operation('matmul', 'MatMul', [scaled.name, columns.name]);
  if (version === 2) {
    for (const axis of [1, 2, 0]) attn.read(tables[axis]!);
    scores = addDistances(attn, scores, q, tables, block);
  }
  const shares = operation('softmax', 'Softmax', [scores.name], { axis: -1 });
  let y = operation('matmul', 'MatMul', [shares.name, v.name]);
  if (version === 2) y = addQueries(attn, y, q);
  y = operation('transpose', 'Transpose', [y.name], { perm: [0, 2, 1, 3] });
  y = attn.operation('reshape', channels, 'Reshape', [y.name, attn.constant([0, -1, channels])]);
  y = tokenLinear(attn.child('project'), '0', y, channels);
  attn.arrange(['project', 'pool_q', 'pool_k', 'pool_v']);
  return y;
}

/** v1 changes the number of channels behind its second part, v2 before the attention. */
function writeBlock(block: Module, input: Value, output: number, options: Block): Value {
  const { version, grid, queryStride } = options;
  const isWider = input.channels !== output;
  const normed = layerNorm(block, 'norm1', input, EPSILON);
  const attended = writeAttention(block.child('attn'), normed, options);
  const project = (x: Value): Value => tokenLinear(block, 'project', x, output);
  const skipped = poolSkip(block, isWider && version === 2 ? project(normed) : input, grid, queryStride);
  const x = add(block, skipped, stochasticDepth(block, attended));
  const y = layerNorm(block, 'norm2', x, EPSILON);
  const rest = isWider && version === 1 ? project(y) : x;
  const z = stochasticDepth(block, mlp(block, y, 4 * y.channels, output));
  block.arrange(['norm1', 'norm2', 'attn', 'mlp', 'project']);
  return add(block, rest, z);
}

/** Adds the class token before the tokens, and in v1 what stands for their places. */
function encodePlaces(
  module: Module,
  tokens: Value,
  [frames, height, width]: Grid,
  hasTables: boolean,
): Value {
  const { channels } = tokens;
  const operation = (name: string, opType: string, inputs: readonly string[], attributes = {}): Value =>
    module.operation(name, channels, opType, inputs, attributes);
  const whole = (values: readonly number[]): string => module.constant(values);
  const pixels = height * width;
  const token = module.parameter('class_token', [channels], SPREAD);
  const spatial = hasTables ? module.parameter('spatial_pos', [pixels, channels], SPREAD) : '';
  const temporal = hasTables ? module.parameter('temporal_pos', [frames, channels], SPREAD) : '';
  const first = hasTables ? module.parameter('class_pos', [channels], SPREAD) : '';
  const dims = module.node('Concat', [sizes(module, tokens.name, 0, 1), whole([channels])], { axis: 0 });
  const expanded = operation('expand', 'Expand', [module.read(token), dims]);
  const one = operation('unsqueeze', 'Unsqueeze', [expanded.name, whole([1])]);
  const joined = operation('cat', 'Concat', [one.name, tokens.name], { axis: 1 });
  if (!hasTables) return joined;
  for (const key of [spatial, temporal, first]) module.read(key);
  const ofFrames = module.function('repeat_interleave', channels, () => {
    const apart = module.node('Unsqueeze', [temporal, whole([1])]);
    const repeated = module.node('Expand', [apart, whole([frames, pixels, channels])]);
    module.node('Reshape', [repeated, whole([-1, channels])]);
  });
  const plane = operation('unsqueeze', 'Unsqueeze', [spatial, whole([0])]);
  const planes = operation('expand', 'Expand', [plane.name, whole([frames, pixels, channels])]);
  const ofPixels = operation('reshape', 'Reshape', [planes.name, whole([-1, channels])]);
  const sum = operation('add_', 'Add', [ofFrames.name, ofPixels.name]);
  const ofToken = operation('unsqueeze', 'Unsqueeze', [first, whole([0])]);
  const all = operation('cat', 'Concat', [ofToken.name, sum.name], { axis: 0 });
  const places = operation('unsqueeze', 'Unsqueeze', [all.name, whole([0])]);
  return operation('add_', 'Add', [joined.name, places.name]);
}

const FRAMES = 16;
const SIDE = 224;

function mvit({ version, blocks, queryStrides, keyStrides }: MViT): Architecture {
  return {
    task: 'video',
    classes: KINETICS_CLASSES,
    frames: FRAMES,
    imageSize: SIDE,
    isFixedSize: true,
    write(network, clip, { classes }) {
      const [channels] = blocks[0]!;
      const given = network.operation('getitem', clip.channels, 'Identity', [clip.name]);
      const patches = { kernel: [3, 7, 7], stride: [2, 4, 4], bias: true };
      let x = conv(network, 'conv_proj', given, channels, patches);
      x = network.operation('flatten', channels, 'Reshape', [x.name, network.constant([0, channels, -1])]);
      x = network.operation('transpose', channels, 'Transpose', [x.name], { perm: [0, 2, 1] });
      let grid: Grid = [FRAMES / 2, SIDE / 4, SIDE / 4];
      x = encodePlaces(network.child('pos_encoding'), x, grid, version === 1);
      for (const [at, [input, output, heads]] of blocks.entries()) {
        const queryStride = queryStrides[at] ?? 1;
        const strides = { queryStride, keyStride: keyStrides[at]! };
        const options = { version, heads, channels: version === 1 ? input : output, grid, ...strides };
        x = writeBlock(network.child('blocks').child(String(at)), x, output, options);
        grid = pooledGrid(grid, queryStride);
      }
      x = layerNorm(network, 'norm', x, EPSILON);
      x = network.operation('getitem', x.channels, 'Gather', [x.name, network.constant(0)], { axis: 1 });
      const head = network.child('head');
      x = dropout(head, '0', x);
      network.startHead();
      return linear(head, '1', x, classes);
    },
  };
}

/** Equal entries one after the other. */
function repeat<Item>(...runs: readonly (readonly [count: number, item: Item])[]): Item[] {
  return runs.flatMap(([count, item]) => Array<Item>(count).fill(item));
}

const KEY_STRIDES = repeat([1, 8], [2, 4], [11, 2], [2, 1]);
const QUERY_STRIDES = { 1: 2, 3: 2, 14: 2 };

export const MVITS: Family = {
  mvit_v1_b: mvit({
    version: 1,
    blocks: repeat(
      [1, [96, 192, 1]],
      [1, [192, 192, 2]],
      [1, [192, 384, 2]],
      [10, [384, 384, 4]],
      [1, [384, 768, 4]],
      [2, [768, 768, 8]],
    ),
    queryStrides: QUERY_STRIDES,
    keyStrides: KEY_STRIDES,
  }),
  mvit_v2_s: mvit({
    version: 2,
    blocks: repeat(
      [1, [96, 96, 1]],
      [1, [96, 192, 2]],
      [1, [192, 192, 2]],
      [1, [192, 384, 4]],
      [10, [384, 384, 4]],
      [1, [384, 768, 8]],
      [1, [768, 768, 8]],
    ),
    queryStrides: QUERY_STRIDES,
    keyStrides: KEY_STRIDES,
  }),
};
