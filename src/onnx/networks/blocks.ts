/** The modules of torchvision.ops, which torchvision lists as a whole. */
import {
  activate,
  batchNorm,
  conv,
  dropout,
  globalPool,
  tokenLinear,
  type Activation,
  type ConvOptions,
  type NormOptions,
} from './layers.js';
import type { Module } from './module.js';
import type { Value } from './network.js';

export interface ConvNormOptions extends ConvOptions {
  readonly norm?: NormOptions;
  /** Left out, there is no activation. */
  readonly activation?: Activation;
}

/** `Conv2dNormActivation`: a convolution, a BatchNorm, an activation. */
export function convNorm(
  module: Module,
  name: string,
  x: Value,
  channels: number,
  { norm, activation, ...options }: ConvNormOptions,
): Value {
  const block = module.child(name);
  const y = batchNorm(block, '1', conv(block, '0', x, channels, options), norm);
  return activation === undefined ? y : activate(block, '2', y, activation);
}

/** `SqueezeExcitation`. Hu et al., "Squeeze-and-Excitation Networks", 2017. */
export function squeezeExcitation(
  module: Module,
  name: string,
  x: Value,
  squeezed: number,
  [inner, outer]: readonly [Activation, Activation],
): Value {
  const block = module.child(name);
  let scale = globalPool(block, 'avgpool', x);
  scale = conv(block, 'fc1', scale, squeezed, { bias: true });
  scale = activate(block, 'activation', scale, inner);
  scale = conv(block, 'fc2', scale, x.channels, { bias: true });
  scale = activate(block, 'scale_activation', scale, outer);
  return block.operation('mul', x.channels, 'Mul', [scale.name, x.name]);
}

/** `MLP`: two linear layers with a GELU between them. */
export function mlp(module: Module, x: Value, hidden: number, channels: number = x.channels): Value {
  const block = module.child('mlp');
  let y = tokenLinear(block, '0', x, hidden);
  y = activate(block, '1', y, 'gelu');
  y = dropout(block, '2', y);
  y = tokenLinear(block, '3', y, channels);
  return dropout(block, '4', y);
}

/** `Permute`. */
export function permuteModule(module: Module, name: string, x: Value, perm: readonly number[]): Value {
  return permute(module.call(name), x, perm);
}

/** `torch.permute`. */
export function permute(module: Module, x: Value, perm: readonly number[]): Value {
  return module.operation('permute', x.channels, 'Transpose', [x.name], { perm });
}

/** The multiple of a divisor that is next to a number of channels, and at least nine tenths of it. */
export function divisible(channels: number, divisor = 8): number {
  const rounded = Math.max(divisor, Math.floor((channels + divisor / 2) / divisor) * divisor);
  return rounded < 0.9 * channels ? rounded + divisor : rounded;
}
