/** Small graphs with BatchNorms. */
import type { Tensor } from '../../src/onnx/tensor/tensor.js';
import { modelBytes, type GraphSpec, type NodeSpec, type WeightSpec } from './graphs.js';

/** A BatchNorm node `x → y` with initializers `NAME.weight`, … */
export function normNode(name: string, input: string, output: string): NodeSpec {
  const inputs = [input, ...['weight', 'bias', 'running_mean', 'running_var'].map((key) => `${name}.${key}`)];
  return { op: 'BatchNormalization', name, inputs, outputs: [output] };
}

/** The initializers of a BatchNorm: scale 1, 1.5, …; shift 0, -0.25, …; mean 0; variance 1. */
export function normWeights(name: string, channels: number): Record<string, WeightSpec> {
  const values = (at: (c: number) => number): number[] => Array.from({ length: channels }, (_, c) => at(c));
  return {
    [`${name}.weight`]: values((c) => 1 + c / 2),
    [`${name}.bias`]: values((c) => -c / 4),
    [`${name}.running_mean`]: values(() => 0),
    [`${name}.running_var`]: values(() => 1),
  };
}

/** `x → bn → relu → bn2 → y` for an input of these dims, the first open. */
export function twoNorms(dims: readonly (number | string)[], opset = 17): Uint8Array {
  const channels = dims[1] as number;
  const spec: GraphSpec = {
    inputs: [{ name: 'x', dims }],
    outputs: [{ name: 'y', dims }],
    nodes: [
      normNode('bn1', 'x', 'a'),
      { op: 'Relu', inputs: ['a'], outputs: ['b'], name: 'relu' },
      normNode('bn2', 'b', 'y'),
    ],
    initializers: { ...normWeights('bn1', channels), ...normWeights('bn2', channels) },
  };
  return modelBytes(spec, { opset });
}

/** Numbers that differ from channel to channel, from a fixed formula. */
export function rows(dims: readonly number[], seed = 0): Tensor<'float32'> {
  const count = dims.reduce((product, size) => product * size, 1);
  const data = Float32Array.from({ length: count }, (_, i) => 5 * Math.sin(seed + i * 12.9898) + (i % 7));
  return { dtype: 'float32', dims, data };
}

/** Mean and population variance of each channel, in float64. */
export function momentsOf(tensors: readonly Tensor<'float32'>[]): {
  mean: number[];
  variance: number[];
  count: number;
} {
  const channels = tensors[0]!.dims[1]!;
  const values: number[][] = Array.from({ length: channels }, () => []);
  for (const { dims, data } of tensors) {
    const inner = dims.slice(2).reduce((product, size) => product * size, 1);
    data.forEach((value, i) => values[Math.floor(i / inner) % channels]!.push(value));
  }
  const mean = values.map((of) => of.reduce((sum, value) => sum + value, 0) / of.length);
  const variance = values.map(
    (of, c) => of.reduce((sum, value) => sum + (value - mean[c]!) ** 2, 0) / of.length,
  );
  return { mean, variance, count: values[0]!.length };
}
