/** The ONNX graph that compares rows with queries: a matrix product, and the squared norm of each row. */
import { ELEMENT_TYPE, type Dim } from '../../onnx/wire/schema.js';
import { writeModel, type NewValue } from '../../onnx/wire/write-model.js';

/** Names of the graph's input and outputs. */
export const SCORE_INPUT = 'rows';
export const SCORE_OUTPUTS = ['dots', 'squares'] as const;

const IR_VERSION = 8;
const OPSET = 13;
const QUERIES = 'queries';

/**
 * Makes an ONNX model for rows `[R, D]`. It returns `dots` `[R, Q]`, each row's product with each query, and `squares` `[R]`; all
 * tensors are float32.
 *
 * @param queries - `count × elements` numbers; part of the model, so that the runtime can lay them out once.
 * @param elements - D.
 */
export function encodeScoreModel(
  queries: Float32Array,
  count: number,
  elements: number,
): Uint8Array<ArrayBuffer> {
  const [dots, squares] = SCORE_OUTPUTS;
  const data = new Uint8Array(queries.buffer, queries.byteOffset, queries.byteLength);
  const value = (name: string, dims: readonly Dim[]): NewValue => ({
    name,
    elemType: ELEMENT_TYPE.float32,
    dims,
  });
  return writeModel({
    irVersion: IR_VERSION,
    opset: OPSET,
    name: 'scores',
    nodes: [
      // The constant is the second factor: ONNX Runtime packs it once.
      {
        name: dots,
        opType: 'Gemm',
        inputs: [SCORE_INPUT, QUERIES],
        outputs: [dots],
        attributes: { transB: 1 },
      },
      {
        name: squares,
        opType: 'ReduceSumSquare',
        inputs: [SCORE_INPUT],
        outputs: [squares],
        attributes: { axes: [1], keepdims: 0 },
      },
    ],
    tensors: [{ name: QUERIES, elemType: ELEMENT_TYPE.float32, dims: [count, elements], data }],
    inputs: [value(SCORE_INPUT, ['R', elements])],
    outputs: [value(dots, ['R', count]), value(squares, ['R'])],
  });
}
