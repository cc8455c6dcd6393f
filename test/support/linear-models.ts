/** Networks of linear layers, small enough to compute by hand, with torch's names. */
import type { Tensor } from 'onnx-tapir';
import { modelBytes, type NodeSpec, type WeightSpec } from './graphs.js';

/** A tensor. */
export function floats(dims: readonly number[], values: readonly number[]): Tensor<'float32'> {
  return { dtype: 'float32', dims, data: Float32Array.from(values) };
}

export interface LinearOptions {
  /** The number of rows, or the name of an open one. */
  readonly rows: number | string;
  /** `[out, in]` of the layer's weight. */
  readonly sizes: readonly [number, number];
  readonly weight: readonly number[];
  readonly bias: readonly number[];
  /** Whether the file holds the weight transposed, as exporters write a layer over several axes. */
  readonly isTransposed: boolean;
}

/** y = x · weightᵀ + bias, by default a weight of 2 × 3. */
export function linearModel(given: Partial<LinearOptions> = {}): Uint8Array {
  const { rows = 'n', sizes = [2, 3] as const, isTransposed = false } = given;
  const [out, features] = sizes;
  const { weight = [1, 2, 3, 4, 5, 6], bias = [0, 0] } = given;
  const turned = Array.from(
    { length: out * features },
    (_, i) => weight[(i % out) * features + Math.floor(i / out)]!,
  );
  const [held, dims, values] = isTransposed
    ? (['onnx::MatMul_3', [features, out], turned] as const)
    : (['fc.weight', [out, features], weight] as const);
  const nodes: NodeSpec[] = isTransposed
    ? [
        { op: 'MatMul', name: '/fc/MatMul', inputs: ['x', held], outputs: ['p'] },
        { op: 'Add', name: '/fc/Add', inputs: ['p', 'fc.bias'], outputs: ['y'] },
      ]
    : [{ op: 'Gemm', name: '/fc/Gemm', inputs: ['x', held, 'fc.bias'], outputs: ['y'], ints: { transB: 1 } }];
  return modelBytes({
    inputs: [{ name: 'x', dims: [rows, features] }],
    outputs: [{ name: 'y', dims: [rows, out] }],
    initializers: { [held]: { dims, values }, 'fc.bias': bias },
    nodes,
  });
}

/** Linear layers of 2 × 2 one after the other: `layer1.0`, `layer1.1`, `layer2`, …; each reads the initializers that are named for it. */
export function stackedModel(
  layers: Readonly<Record<string, readonly [weight: string, bias: string]>>,
  initializers: Readonly<Record<string, WeightSpec>>,
): Uint8Array {
  const names = Object.keys(layers);
  const nodes = names.map((name, i): NodeSpec => ({
    op: 'Gemm',
    name: `/${name.replaceAll('.', '/')}/Gemm`,
    inputs: [i === 0 ? 'x' : `t${i}`, ...layers[name]!],
    outputs: [i === names.length - 1 ? 'y' : `t${i + 1}`],
    ints: { transB: 1 },
  }));
  return modelBytes({
    inputs: [{ name: 'x', dims: ['n', 2] }],
    outputs: [{ name: 'y', dims: ['n', 2] }],
    initializers,
    nodes,
  });
}
