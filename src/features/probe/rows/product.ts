/** Products with one square matrix, in double precision and on all cores. */
import { ELEMENT_TYPE } from '../../../onnx/wire/schema.js';
import { writeModel } from '../../../onnx/wire/write-model.js';
import { doubles, openRowSession } from './row-session.js';

/** Multiplies rows by the matrix. Made by {@link openProduct}. */
export interface Product {
  /** rows `[K, size]` → rows · matrix `[K, size]`. */
  multiply(rows: Float64Array): Promise<Float64Array>;
  close(): Promise<void>;
}

/** Opens a session that holds the matrix `[size, size]`. */
export async function openProduct(
  matrix: Float64Array,
  size: number,
  signal: AbortSignal | undefined,
): Promise<Product> {
  const { float64 } = ELEMENT_TYPE;
  const data = new Uint8Array(matrix.buffer, matrix.byteOffset, matrix.byteLength);
  const model = writeModel({
    irVersion: 8,
    opset: 13,
    name: 'product',
    nodes: [{ name: 'y', opType: 'MatMul', inputs: ['x', 'matrix'], outputs: ['y'] }],
    tensors: [{ name: 'matrix', elemType: float64, dims: [size, size], data }],
    inputs: [{ name: 'x', elemType: float64, dims: ['K', size] }],
    outputs: [{ name: 'y', elemType: float64, dims: ['K', size] }],
  });
  const session = await openRowSession(model, signal);
  return {
    async multiply(rows) {
      const [y] = await session.run({ x: doubles([rows.length / size, size], rows) }, ['y']);
      return y!.data as Float64Array;
    },
    close: () => session[Symbol.asyncDispose](),
  };
}
