/**
 * MobileNet v2: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018.
 * v3: Howard et al., "Searching for MobileNetV3", 2019.
 */
import type { Architecture, Family } from '../architecture.js';
import { convNorm, divisible, squeezeExcitation } from '../blocks.js';
import {
  BRANCH_GAIN,
  activate,
  add,
  batchNorm,
  conv,
  dropout,
  flatten,
  globalPool,
  linear,
  type Activation,
  type NormOptions,
} from '../layers.js';
import type { Module } from '../module.js';
import type { Value } from '../network.js';

/** Expansion, channels, number and first stride of the blocks of v2. */
const V2 = [
  [1, 16, 1, 1],
  [6, 24, 2, 2],
  [6, 32, 3, 2],
  [6, 64, 4, 2],
  [6, 96, 3, 1],
  [6, 160, 3, 2],
  [6, 320, 1, 1],
] as const;

function blockV2(block: Module, x: Value, expansion: number, channels: number, stride: number): Value {
  const body = block.child('conv');
  const inner = x.channels * expansion;
  const isResidual = stride === 1 && x.channels === channels;
  let y = x;
  let k = 0;
  if (expansion !== 1) y = convNorm(body, String(k++), y, inner, { activation: 'relu6' });
  y = convNorm(body, String(k++), y, inner, { kernel: 3, stride, groups: inner, activation: 'relu6' });
  y = conv(body, String(k++), y, channels);
  y = batchNorm(body, String(k), y, isResidual ? { gain: BRANCH_GAIN } : {});
  return isResidual ? add(block, x, y) : y;
}

const MOBILENET_V2: Architecture = {
  write(network, image, { classes }) {
    const features = network.child('features');
    let x = convNorm(features, '0', image, 32, { kernel: 3, stride: 2, activation: 'relu6' });
    let at = 1;
    for (const [expansion, channels, count, stride] of V2)
      for (let k = 0; k < count; k++)
        x = blockV2(features.child(String(at++)), x, expansion, channels, k === 0 ? stride : 1);
    x = convNorm(features, String(at), x, 1280, { activation: 'relu6' });
    x = network.operation('adaptive_avg_pool2d', x.channels, 'GlobalAveragePool', [x.name]);
    x = flatten(network, x);
    const classifier = network.child('classifier');
    x = dropout(classifier, '0', x);
    network.startHead();
    return linear(classifier, '1', x, classes);
  },
};

/** Kernel, inner channels, channels, whether it squeezes, activation, and stride of a block of v3. */
type BlockV3 = readonly [number, number, number, boolean, 'relu' | 'hardswish', 1 | 2];

const LARGE: readonly BlockV3[] = [
  [3, 16, 16, false, 'relu', 1],
  [3, 64, 24, false, 'relu', 2],
  [3, 72, 24, false, 'relu', 1],
  [5, 72, 40, true, 'relu', 2],
  [5, 120, 40, true, 'relu', 1],
  [5, 120, 40, true, 'relu', 1],
  [3, 240, 80, false, 'hardswish', 2],
  [3, 200, 80, false, 'hardswish', 1],
  [3, 184, 80, false, 'hardswish', 1],
  [3, 184, 80, false, 'hardswish', 1],
  [3, 480, 112, true, 'hardswish', 1],
  [3, 672, 112, true, 'hardswish', 1],
  [5, 672, 160, true, 'hardswish', 2],
  [5, 960, 160, true, 'hardswish', 1],
  [5, 960, 160, true, 'hardswish', 1],
];
const SMALL: readonly BlockV3[] = [
  [3, 16, 16, true, 'relu', 2],
  [3, 72, 24, false, 'relu', 2],
  [3, 88, 24, false, 'relu', 1],
  [5, 96, 40, true, 'hardswish', 2],
  [5, 240, 40, true, 'hardswish', 1],
  [5, 240, 40, true, 'hardswish', 1],
  [5, 120, 48, true, 'hardswish', 1],
  [5, 144, 48, true, 'hardswish', 1],
  [5, 288, 96, true, 'hardswish', 2],
  [5, 576, 96, true, 'hardswish', 1],
  [5, 576, 96, true, 'hardswish', 1],
];
const NORM: NormOptions = { epsilon: 0.001, momentum: 0.01 };

interface BlockOptions {
  readonly norm: NormOptions;
  readonly dilation: number;
}

function blockV3(module: Module, x: Value, shape: BlockV3, options: BlockOptions): Value {
  const [, inner, channels, , activation, stride] = shape;
  const block = module.child('block');
  const isResidual = stride === 1 && x.channels === channels;
  const isWider = inner !== x.channels;
  const y = isWider ? convNorm(block, '0', x, inner, { norm: options.norm, activation }) : x;
  const z = squeeze(block, isWider ? 1 : 0, y, shape, { ...options, isResidual });
  return isResidual ? add(module, z, x) : z;
}

/** A block after its expansion; its layers are numbered from `first` on. */
function squeeze(
  block: Module,
  first: number,
  x: Value,
  [kernel, inner, channels, squeezes, activation, stride]: BlockV3,
  { norm, dilation, isResidual }: BlockOptions & { readonly isResidual: boolean },
): Value {
  let k = first;
  const depthwise = { kernel, stride: dilation > 1 ? 1 : stride, dilation, groups: inner };
  let y = convNorm(block, String(k++), x, inner, { ...depthwise, norm, activation });
  if (squeezes) {
    const squeezed = divisible(Math.floor(inner / 4));
    y = squeezeExcitation(block, String(k++), y, squeezed, ['relu', 'hardsigmoid']);
  }
  return convNorm(block, String(k), y, channels, { norm: { ...norm, gain: isResidual ? BRANCH_GAIN : 1 } });
}

export interface MobileNetOptions {
  /** Whether the last blocks keep the size of the map: their convolutions are dilated instead. */
  readonly isDilated?: boolean;
  /** Whether the last blocks have half the channels. */
  readonly isReduced?: boolean;
  readonly norm?: NormOptions;
}

/** The last three blocks, which may be dilated or reduced. */
const LAST = 3;

/** Writes the features of a v3. Returns what they give, one after the other. */
function writeFeatures(
  features: Module,
  image: Value,
  blocks: readonly BlockV3[],
  { isDilated = false, isReduced = false, norm = NORM }: MobileNetOptions = {},
): Value[] {
  const activation: Activation = 'hardswish';
  const values = [convNorm(features, '0', image, 16, { kernel: 3, stride: 2, norm, activation })];
  for (const [k, block] of blocks.entries()) {
    const isLast = k >= blocks.length - LAST;
    const dilation = isDilated && isLast ? 2 : 1;
    const shape = isReduced ? reduced(block, k - (blocks.length - LAST)) : block;
    values.push(blockV3(features.child(String(k + 1)), values.at(-1)!, shape, { norm, dilation }));
  }
  const last = values.at(-1)!;
  const name = String(blocks.length + 1);
  return [...values, convNorm(features, name, last, 6 * last.channels, { norm, activation })];
}

/** A block with half the channels, if it is one of the last: the first of them still expands what it reads. */
function reduced([kernel, inner, channels, ...rest]: BlockV3, at: number): BlockV3 {
  if (at < 0) return [kernel, inner, channels, ...rest];
  return [kernel, at === 0 ? inner : inner / 2, channels / 2, ...rest];
}

/** The features of MobileNet v3 large, of which others are made. */
export function mobilenetFeatures(features: Module, image: Value, options?: MobileNetOptions): Value[] {
  return writeFeatures(features, image, LARGE, options);
}

/**
 * The features of MobileNet v3 large in two parts, `0` and `1`, as SSDLite takes them: the first ends with the expansion of the block that halves
 * the map for the last time.
 */
export function mobilenetPair(
  features: Module,
  image: Value,
  { isReduced = false, norm = NORM }: MobileNetOptions,
): Value[] {
  const activation: Activation = 'hardswish';
  const at = LARGE.length - LAST;
  const options = { norm, dilation: 1 };
  const [start, end] = [features.child('0'), features.child('1')];
  const shapes = LARGE.map((shape, k) => (isReduced ? reduced(shape, k - at) : shape));
  let x = convNorm(start, '0', image, 16, { kernel: 3, stride: 2, norm, activation });
  for (const [k, shape] of shapes.slice(0, at).entries())
    x = blockV3(start.child(String(k + 1)), x, shape, options);
  const middle = shapes[at]!;
  const first = convNorm(start, String(at + 1), x, middle[1], { norm, activation });
  x = squeeze(end.child('0'), 1, first, middle, { ...options, isResidual: false });
  for (const [k, shape] of shapes.slice(at + 1).entries())
    x = blockV3(end.child(String(k + 1)), x, shape, options);
  return [first, convNorm(end, String(LAST), x, 6 * x.channels, { norm, activation })];
}

/** The values of {@link mobilenetFeatures} before which the map is halved (or would be, if it were not dilated), the first and the last. */
export const MOBILENET_STAGES: readonly number[] = [
  0,
  ...LARGE.flatMap(([, , , , , stride], k) => (stride === 2 ? [k + 1] : [])),
  LARGE.length + 1,
];

function mobilenetV3(blocks: readonly BlockV3[], hidden: number): Architecture {
  return {
    write(network, image, { classes }) {
      let x = writeFeatures(network.child('features'), image, blocks).at(-1)!;
      x = flatten(network, globalPool(network, 'avgpool', x));
      const classifier = network.child('classifier');
      x = linear(classifier, '0', x, hidden);
      x = activate(classifier, '1', x, 'hardswish');
      x = dropout(classifier, '2', x);
      network.startHead();
      return linear(classifier, '3', x, classes);
    },
  };
}

export const MOBILENETS: Family = {
  mobilenet_v2: MOBILENET_V2,
  mobilenet_v3_large: mobilenetV3(LARGE, 1280),
  mobilenet_v3_small: mobilenetV3(SMALL, 1024),
};
