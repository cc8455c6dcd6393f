/** A small model whose weights are matrices, as a transformer's are. */
import { createRandom } from '../../src/base/random.js';
import { modelBytes, type WeightSpec } from './graphs.js';

function matrix(rows: number, columns: number, seed: number): WeightSpec {
  const next = createRandom(seed);
  return { dims: [rows, columns], values: Array.from({ length: rows * columns }, () => next() - 0.5) };
}

/** Images `[n, 3, 16, 16]` → tokens `[n, 16, 64]`, by two products named `fc1` and `fc2`. */
export function patchModel(): Uint8Array {
  return modelBytes({
    inputs: [{ name: 'x', dims: ['n', 3, 16, 16] }],
    outputs: [{ name: 'tokens', dims: ['n', 16, 64] }],
    nodes: [
      { op: 'Reshape', inputs: ['x', 'shape'], outputs: ['rows'] },
      { op: 'MatMul', name: 'fc1', inputs: ['rows', 'a'], outputs: ['h'] },
      { op: 'Relu', inputs: ['h'], outputs: ['r'] },
      { op: 'MatMul', name: 'fc2', inputs: ['r', 'b'], outputs: ['tokens'] },
    ],
    initializers: {
      shape: { dims: [3], values: [0, 16, 48], elemType: 'int64' },
      a: matrix(48, 256, 1),
      b: matrix(256, 64, 2),
    },
  });
}
