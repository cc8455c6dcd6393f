/** The ONNX graph that multiplies two tiles of rows, and finds the largest product of each row. */
import { ELEMENT_TYPE, type Dim } from '../../onnx/wire/schema.js';
import { writeModel, type NewValue } from '../../onnx/wire/write-model.js';

/** Names of the graph's inputs and outputs. */
export const PRODUCT_INPUTS = ['left', 'right'] as const;
export const PRODUCT_OUTPUTS = ['dots', 'most'] as const;

const IR_VERSION = 8;
const OPSET = 13;

/**
 * Makes an ONNX model for tiles `left` `[L, D]` and `right` `[R, D]`. It returns `dots` `[L, R]`, the products of all rows, and
 * `most` `[L]`, the largest of each row: few rows of a tile have a near-duplicate, and only these are looked through. All tensors
 * are float32.
 *
 * @param elements - D.
 */
export function encodeProductModel(elements: number): Uint8Array<ArrayBuffer> {
  const [left, right] = PRODUCT_INPUTS;
  const [dots, most] = PRODUCT_OUTPUTS;
  const value = (name: string, dims: readonly Dim[]): NewValue => ({
    name,
    elemType: ELEMENT_TYPE.float32,
    dims,
  });
  return writeModel({
    irVersion: IR_VERSION,
    opset: OPSET,
    name: 'products',
    nodes: [
      { name: dots, opType: 'Gemm', inputs: [left, right], outputs: [dots], attributes: { transB: 1 } },
      {
        name: most,
        opType: 'ReduceMax',
        inputs: [dots],
        outputs: [most],
        attributes: { axes: [1], keepdims: 0 },
      },
    ],
    tensors: [],
    inputs: [value(left, ['L', elements]), value(right, ['R', elements])],
    outputs: [value(dots, ['L', 'R']), value(most, ['L'])],
  });
}
