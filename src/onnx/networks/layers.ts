/** The layers of torch.nn that torchvision's classification networks are made of. */
import type { NewAttribute } from '../file/wire/write-model.js';
import type { Module } from './module.js';
import type { Start, Value } from './network.js';

export const FILTERS: Start = { filters: true };
export const ZEROS: Start = { fill: 0 };
export const ONES: Start = { fill: 1 };

/** The first weight of the norm that ends a residual branch: small, so that fifty blocks do not blow activations up. */
export const BRANCH_GAIN = 0.25;

/** A number for all axes of a map, or one for each: height and width, or time, height and width. */
export type Sides = number | readonly number[];

/** Zeros before and after, along every axis. */
const pads = (sides: readonly number[]): number[] => [...sides, ...sides];

/** A number for each of so many axes. */
function spread(sides: Sides, axes: number): readonly number[] {
  return typeof sides === 'number' ? Array<number>(axes).fill(sides) : sides;
}

/** The axes of a map whose kernel this is: two, unless it has a number for each. */
const axesOf = (kernel: Sides): number => (typeof kernel === 'number' ? 2 : kernel.length);

export interface ConvOptions {
  /** 1 unless given. A list of three numbers makes it a convolution over time, height and width. */
  readonly kernel?: Sides;
  readonly stride?: Sides;
  readonly dilation?: number;
  /** Half the kernel unless given, which keeps the size at stride 1. */
  readonly padding?: Sides;
  readonly groups?: number;
  readonly bias?: boolean;
}

export function conv(
  module: Module,
  name: string,
  x: Value,
  channels: number,
  options: ConvOptions = {},
): Value {
  return module.layer(name, channels, (layer) => convolve(layer, x, channels, options));
}

/** The node of a convolution and its parameters. */
export function convolve(
  layer: Module,
  x: Value,
  channels: number,
  { kernel = 1, stride = 1, dilation = 1, groups = 1, bias = false, ...given }: ConvOptions,
): string {
  const axes = axesOf(kernel);
  const shape = spread(kernel, axes);
  const padding = given.padding ?? shape.map((side) => dilation * Math.floor((side - 1) / 2));
  const inputs = [x.name, layer.parameter('weight', [channels, x.channels / groups, ...shape], FILTERS)];
  if (bias) inputs.push(layer.parameter('bias', [channels], ZEROS));
  return layer.node('Conv', inputs, {
    dilations: spread(dilation, axes),
    group: groups,
    kernel_shape: shape,
    pads: pads(spread(padding, axes)),
    strides: spread(stride, axes),
  });
}

export interface NormOptions {
  readonly epsilon?: number;
  /** As torch counts it: the share of the new batch. */
  readonly momentum?: number;
  /** The first value of the weight. */
  readonly gain?: number;
  /** torchvision's FrozenBatchNorm2d, which never trains: a factor and a summand per channel. */
  readonly isFrozen?: boolean;
}

export function batchNorm(
  module: Module,
  name: string,
  x: Value,
  { epsilon = 1e-5, momentum = 0.1, gain = 1, isFrozen = false }: NormOptions = {},
): Value {
  const dims = [x.channels];
  if (isFrozen) return frozenNorm(module.child(name), x, epsilon);
  return module.layer(name, x.channels, (layer) => {
    const inputs = [
      x.name,
      layer.parameter('weight', dims, { fill: gain }),
      layer.parameter('bias', dims, ZEROS),
      layer.parameter('running_mean', dims, ZEROS),
      layer.parameter('running_var', dims, ONES),
    ];
    layer.node('BatchNormalization', inputs, {
      epsilon: { float: epsilon },
      momentum: { float: 1 - momentum },
    });
  });
}

function frozenNorm(norm: Module, x: Value, epsilon: number): Value {
  const dims = [x.channels];
  const weight = norm.parameter('weight', dims, ONES);
  const bias = norm.parameter('bias', dims, ZEROS);
  const mean = norm.parameter('running_mean', dims, ZEROS);
  const variance = norm.parameter('running_var', dims, ONES);
  const deviation = norm.node('Sqrt', [norm.node('Add', [variance, norm.constant({ float: epsilon })])]);
  const factor = norm.node('Div', [weight, deviation]);
  const summand = norm.node('Sub', [bias, norm.node('Mul', [mean, factor])]);
  const perChannel = norm.constant([-1, 1, 1]);
  const [scale, shift] = [factor, summand].map((row) => norm.node('Reshape', [row, perChannel]));
  const y = norm.operation('mul', x.channels, 'Mul', [x.name, scale!]);
  return norm.operation('add', x.channels, 'Add', [y.name, shift!]);
}

/** Over each of some equal groups of channels: ONNX has it from opset 21 on; InstanceNormalization takes a group for a channel. */
export function groupNorm(module: Module, name: string, x: Value, groups: number): Value {
  return module.layer(name, x.channels, (layer) => {
    const [weight, bias] = [
      layer.parameter('weight', [x.channels], ONES),
      layer.parameter('bias', [x.channels], ZEROS),
    ];
    const grouped = layer.node('Reshape', [x.name, layer.constant([0, groups, -1])]);
    const [one, zero] = [1, 0].map((value) =>
      layer.node('Expand', [layer.constant({ float: value }), layer.constant([groups])]),
    );
    const y = layer.node('InstanceNormalization', [grouped, one!, zero!], { epsilon: { float: 1e-5 } });
    const map = layer.node('Reshape', [y, layer.node('Shape', [x.name])]);
    const [scale, shift] = [weight, bias].map((row) =>
      layer.node('Reshape', [row, layer.constant([-1, 1, 1])]),
    );
    layer.node('Add', [layer.node('Mul', [map, scale!]), shift!]);
  });
}

/** Vectors along an axis, divided by their length, as `F.normalize`. */
export function unitLength(module: Module, x: string, axis: number): string {
  const squares = module.node('ReduceSum', [module.node('Mul', [x, x]), module.constant([axis])], {
    keepdims: 1,
  });
  const length = module.node('Max', [module.node('Sqrt', [squares]), module.constant({ float: 1e-12 })]);
  return module.node('Div', [x, length]);
}

/** Over the last axis. */
export function layerNorm(module: Module, name: string, x: Value, epsilon: number): Value {
  return module.layer(name, x.channels, (layer) => {
    const weight = layer.parameter('weight', [x.channels], ONES);
    const bias = layer.parameter('bias', [x.channels], ZEROS);
    layer.node('LayerNormalization', [x.name, weight, bias], { axis: -1, epsilon: { float: epsilon } });
  });
}

export type Activation =
  'relu' | 'relu6' | 'silu' | 'hardswish' | 'hardsigmoid' | 'sigmoid' | 'gelu' | 'tanh';

export function activate(module: Module, name: string, x: Value, kind: Activation): Value {
  return module.layer(name, x.channels, (layer) => ACTIVATIONS[kind](layer, x.name));
}

const ACTIVATIONS: Readonly<Record<Activation, (layer: Module, x: string) => void>> = {
  relu: (layer, x) => layer.node('Relu', [x]),
  relu6: (layer, x) => layer.node('Clip', [x, layer.constant({ float: 0 }), layer.constant({ float: 6 })]),
  silu: (layer, x) => layer.node('Mul', [x, layer.node('Sigmoid', [x])]),
  hardswish: (layer, x) => layer.node('HardSwish', [x]),
  hardsigmoid: (layer, x) =>
    layer.node('HardSigmoid', [x], { alpha: { float: 1 / 6 }, beta: { float: 0.5 } }),
  sigmoid: (layer, x) => layer.node('Sigmoid', [x]),
  tanh: (layer, x) => layer.node('Tanh', [x]),
  // ONNX has Gelu from opset 20 on; ONNX Runtime recognises these nodes as one.
  gelu(layer, x) {
    const erf = layer.node('Erf', [layer.node('Div', [x, layer.constant({ float: Math.SQRT2 })])]);
    const twice = layer.node('Mul', [x, layer.node('Add', [erf, layer.constant({ float: 1 })])]);
    layer.node('Mul', [twice, layer.constant({ float: 0.5 })]);
  },
};

/** Of vectors `[batch, channels]`. */
export function linear(module: Module, name: string, x: Value, channels: number, bias = true): Value {
  return module.layer(name, channels, (layer) => {
    const inputs = [x.name, layer.parameter('weight', [channels, x.channels], FILTERS)];
    if (bias) inputs.push(layer.parameter('bias', [channels], ZEROS));
    layer.node('Gemm', inputs, { transB: 1 });
  });
}

/** Of tokens, over the last axis. */
export function tokenLinear(module: Module, name: string, x: Value, channels: number, bias = true): Value {
  return module.layer(name, channels, (layer) => {
    const weight = layer.parameter('weight', [channels, x.channels], FILTERS);
    product(layer, x.name, weight, bias ? layer.parameter('bias', [channels], ZEROS) : undefined);
  });
}

/** Tokens times the transpose of a weight. */
export function product(layer: Module, x: string, weight: string, bias: string | undefined): string {
  const y = layer.node('MatMul', [x, layer.node('Transpose', [weight], { perm: [1, 0] })]);
  return bias === undefined ? y : layer.node('Add', [y, bias]);
}

export interface PoolOptions {
  /** A list of three numbers makes it a pooling over time, height and width. */
  readonly kernel: Sides;
  readonly stride: Sides;
  readonly padding?: Sides;
  readonly ceil?: boolean;
}

export function poolAttributes({
  kernel,
  stride,
  padding = 0,
  ceil = false,
}: PoolOptions): Record<string, NewAttribute> {
  const axes = axesOf(kernel);
  return {
    ceil_mode: ceil ? 1 : 0,
    kernel_shape: spread(kernel, axes),
    pads: pads(spread(padding, axes)),
    strides: spread(stride, axes),
  };
}

export function maxPool(module: Module, name: string, x: Value, options: PoolOptions): Value {
  return module.layer(name, x.channels, (layer) => layer.node('MaxPool', [x.name], poolAttributes(options)));
}

/** To one pixel. */
export function globalPool(module: Module, name: string, x: Value): Value {
  return module.layer(name, x.channels, (layer) => layer.node('GlobalAveragePool', [x.name]));
}

/**
 * To size × size pixels whatever the input's: pixel i is the mean of the rows from ⌊i·h/size⌋ to ⌈(i+1)·h/size⌉, and likewise of the
 * columns. A matrix per axis computes these means, because ONNX has no such operator.
 */
export function adaptivePool(module: Module, x: Value, size: number): Value {
  return module.layer('avgpool', x.channels, (layer) => {
    const rows = layer.node('MatMul', [means(layer, x.name, 2, size), x.name]);
    const columns = layer.node('Transpose', [means(layer, x.name, 3, size)], { perm: [1, 0] });
    layer.node('MatMul', [rows, columns]);
  });
}

/** `[size, length of the axis]`: row i holds the weights of the i-th mean. */
function means(layer: Module, x: string, axis: number, size: number): string {
  const column = (value: (i: number) => number): string =>
    layer.node('Unsqueeze', [
      layer.constant(Array.from({ length: size }, (_, i) => value(i))),
      layer.constant([1]),
    ]);
  const length = layer.node('Squeeze', [sizes(layer, x, axis, axis + 1)]);
  const index = layer.node('Range', [layer.constant(0), length, layer.constant(1)]);
  const divided = (i: (k: number) => number, rest: number): string => {
    const scaled = layer.node('Mul', [column(i), length]);
    return layer.node('Div', [layer.node('Add', [scaled, layer.constant(rest)]), layer.constant(size)]);
  };
  const start = divided((i) => i, 0);
  const end = divided((i) => i + 1, size - 1);
  const inside = layer.node('And', [
    layer.node('GreaterOrEqual', [index, start]),
    layer.node('Less', [index, end]),
  ]);
  const asFloat = (tensor: string): string => layer.node('Cast', [tensor], { to: 1 });
  return layer.node('Div', [asFloat(inside), asFloat(layer.node('Sub', [end, start]))]);
}

/** The sizes of some axes, as integers. */
export function sizes(module: Module, tensor: string, start: number, end: number): string {
  if (module.network.opset >= SHAPE_OF_SOME) return module.node('Shape', [tensor], { start, end });
  const [from, to, axis] = [[start], [end], [0]].map((values) => module.constant(values));
  return module.node('Slice', [module.node('Shape', [tensor]), from!, to!, axis!]);
}

/** Since this operator set, Shape gives the sizes of some axes. */
const SHAPE_OF_SOME = 15;

/** `F.interpolate` to the height and width of another map: bilinear as with `align_corners=False`, or nearest. */
export function interpolate(module: Module, x: Value, like: Value, mode: 'linear' | 'nearest'): Value {
  const parts = [sizes(module, x.name, 0, 2), sizes(module, like.name, 2, 4)];
  const size = module.node('Concat', parts, { axis: 0 });
  const places =
    mode === 'linear'
      ? { coordinate_transformation_mode: 'half_pixel' }
      : { coordinate_transformation_mode: 'asymmetric', nearest_mode: 'floor' };
  return module.operation('interpolate', x.channels, 'Resize', [x.name, '', '', size], { mode, ...places });
}

/** Dropout does nothing outside training; the node keeps its name. */
export function dropout(module: Module, name: string, x: Value): Value {
  return module.layer(name, x.channels, (layer) => layer.node('Identity', [x.name]));
}

/** A module that drops whole branches while a network is trained, and calls a function for it. */
export function stochasticDepth(module: Module, x: Value, name = 'stochastic_depth'): Value {
  return module.call(name).operation('stochastic_depth', x.channels, 'Identity', [x.name]);
}

export function add(module: Module, a: Value, b: Value): Value {
  return module.operation('add', a.channels, 'Add', [a.name, b.name]);
}

/** Joins feature maps along the channels. */
export function cat(module: Module, values: readonly Value[]): Value {
  const channels = values.reduce((sum, value) => sum + value.channels, 0);
  const names = values.map(({ name }) => name);
  return module.operation('cat', channels, 'Concat', names, { axis: 1 });
}

/** Of maps with this many pixels. */
export function flatten(module: Module, x: Value, pixels = 1): Value {
  return module.operation('flatten', x.channels * pixels, 'Flatten', [x.name], { axis: 1 });
}

/** The mean over all pixels, as vectors, of a map with so many sides. */
export function meanOfPixels(module: Module, x: Value, sides = 2): Value {
  const { opset } = module.network;
  const axes = Array.from({ length: sides }, (_, at) => at + 2);
  return opset < 18
    ? module.operation('mean', x.channels, 'ReduceMean', [x.name], { axes, keepdims: 0 })
    : module.operation('mean', x.channels, 'ReduceMean', [x.name, module.constant(axes)], { keepdims: 0 });
}
