/** The layers of torch.nn that torchvision's classification networks are made of. */
import type { NewAttribute } from '../onnx/wire/write-model.js';
import type { Module } from './module.js';
import type { Start, Value } from './network.js';

export const FILTERS: Start = { filters: true };
export const ZEROS: Start = { fill: 0 };
export const ONES: Start = { fill: 1 };

/** The first weight of the norm that ends a residual branch: small, so that fifty blocks do not blow activations up. */
export const BRANCH_GAIN = 0.25;

type Pair = number | readonly [height: number, width: number];

const pair = (value: Pair): readonly [number, number] => (typeof value === 'number' ? [value, value] : value);
const pads = (padding: Pair): number[] => [...pair(padding), ...pair(padding)];

export interface ConvOptions {
  /** 1 unless given. */
  readonly kernel?: Pair;
  readonly stride?: number;
  /** Half the kernel unless given, which keeps the size at stride 1. */
  readonly padding?: Pair;
  readonly groups?: number;
  readonly bias?: boolean;
}

export function conv(
  module: Module,
  name: string,
  x: Value,
  channels: number,
  { kernel = 1, stride = 1, groups = 1, bias = false, ...given }: ConvOptions = {},
): Value {
  const [height, width] = pair(kernel);
  const padding = given.padding ?? [Math.floor((height - 1) / 2), Math.floor((width - 1) / 2)];
  return module.layer(name, channels, (layer) => {
    const inputs = [
      x.name,
      layer.parameter('weight', [channels, x.channels / groups, height, width], FILTERS),
    ];
    if (bias) inputs.push(layer.parameter('bias', [channels], ZEROS));
    layer.node('Conv', inputs, {
      dilations: [1, 1],
      group: groups,
      kernel_shape: [height, width],
      pads: pads(padding),
      strides: [stride, stride],
    });
  });
}

export interface NormOptions {
  readonly epsilon?: number;
  /** As torch counts it: the share of the new batch. */
  readonly momentum?: number;
  /** The first value of the weight. */
  readonly gain?: number;
}

export function batchNorm(
  module: Module,
  name: string,
  x: Value,
  { epsilon = 1e-5, momentum = 0.1, gain = 1 }: NormOptions = {},
): Value {
  const dims = [x.channels];
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
  readonly kernel: number;
  readonly stride: number;
  readonly padding?: number;
  readonly ceil?: boolean;
}

export function poolAttributes({
  kernel,
  stride,
  padding = 0,
  ceil = false,
}: PoolOptions): Record<string, NewAttribute> {
  return {
    ceil_mode: ceil ? 1 : 0,
    kernel_shape: [kernel, kernel],
    pads: pads(padding),
    strides: [stride, stride],
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
  return module.node('Shape', [tensor], { start, end });
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

/** The mean over all pixels, as vectors. */
export function meanOfPixels(module: Module, x: Value): Value {
  const { opset } = module.network;
  const axes = [2, 3];
  return opset < 18
    ? module.operation('mean', x.channels, 'ReduceMean', [x.name], { axes, keepdims: 0 })
    : module.operation('mean', x.channels, 'ReduceMean', [x.name, module.constant(axes)], { keepdims: 0 });
}
