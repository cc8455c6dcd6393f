/** The graph that compares rows with queries: a matrix product, and the squared norm of each row. */
import {
  ELEMENT_TYPE,
  encodeName,
  encodeNode,
  encodeOpset,
  encodeTensor,
  encodeTensorType,
  GRAPH,
  MODEL,
  VALUE_INFO,
  type Dim,
} from '../../onnx/schema.js';
import { encodeFieldHead } from '../../onnx/wire.js';

/** Names of the graph's input and outputs. */
export const SCORE_INPUT = 'rows';
export const SCORE_OUTPUTS = ['dots', 'squares'] as const;

const OPSET = 13;
const QUERIES = 'queries';

/**
 * An ONNX model for rows `[R, D]`: `dots` `[R, Q]`, each row's product with each query, and `squares` `[R]`, all float32.
 *
 * @param queries - `count × elements` numbers; part of the model, so that the runtime can lay them out once.
 * @param elements - D.
 */
export function encodeScoreModel(queries: Float32Array, count: number, elements: number): Uint8Array {
  const [dots, squares] = SCORE_OUTPUTS;
  const data = new Uint8Array(queries.buffer, queries.byteOffset, queries.byteLength);
  const graph = Buffer.concat([
    // A row per line of the product: the constant stands second, where it is packed once.
    message(
      GRAPH.node,
      encodeNode({
        name: dots,
        opType: 'Gemm',
        inputs: [SCORE_INPUT, QUERIES],
        outputs: [dots],
        attributes: { transB: 1 },
      }),
    ),
    message(
      GRAPH.node,
      encodeNode({
        name: squares,
        opType: 'ReduceSumSquare',
        inputs: [SCORE_INPUT],
        outputs: [squares],
        attributes: { axes: [1], keepdims: 0 },
      }),
    ),
    encodeName(GRAPH.name, 'scores'),
    message(
      GRAPH.initializer,
      encodeTensor({ name: QUERIES, elemType: ELEMENT_TYPE.float32, dims: [count, elements], data }),
    ),
    message(GRAPH.input, encodeValue(SCORE_INPUT, ['R', elements])),
    message(GRAPH.output, encodeValue(dots, ['R', count])),
    message(GRAPH.output, encodeValue(squares, ['R'])),
  ]);
  return Uint8Array.from(
    Buffer.concat([
      // A varint of one byte: IR version 8.
      Uint8Array.of(MODEL.irVersion << 3, 8),
      message(MODEL.graph, graph),
      message(MODEL.opsetImport, encodeOpset(OPSET)),
    ]),
  );
}

function encodeValue(name: string, dims: readonly Dim[]): Uint8Array {
  const type = encodeTensorType(ELEMENT_TYPE.float32, dims);
  return Buffer.concat([encodeName(VALUE_INFO.name, name), message(VALUE_INFO.type, type)]);
}

function message(field: number, body: Uint8Array): Uint8Array {
  return Buffer.concat([encodeFieldHead(field, body.byteLength), body]);
}
